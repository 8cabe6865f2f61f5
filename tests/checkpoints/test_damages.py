"""Damaged checkpoints: refused with the file's name, or read to the bit."""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from damages import DAMAGES

from polyrhythm.core.checkpoints.checkpoint import Checkpoint
from polyrhythm.core.checkpoints.manifest import Manifest
from polyrhythm.core.checkpoints.store import CheckpointStore
from polyrhythm.core.trees import StateTree, separate
from polyrhythm.errors import CheckpointError

ACTORS = ("worker/0", "worker/1", "worker/2", "server/0")


def state(run: int, step: int, actor: str) -> StateTree:
    drawn = torch.Generator().manual_seed(1000 * run + 10 * step + ACTORS.index(actor))
    return {"step": step, "rate": 0.1 * run, "weights": torch.randn(40, generator=drawn), "rows": {3: torch.arange(step)}}


def written(store: CheckpointStore, run: int, step: int) -> Path:
    for actor in ACTORS:
        store.partial(step).write(actor, state(run, step, actor))
    strategy = {"codec": "Identity()", "topology": "Server(1)"}
    return store.commit(step, Manifest(step, 0.1 * step, list(ACTORS[:3]), 1, run, strategy, [list(ACTORS[:3])])).path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with the same layout, of two steps each."""
    folder = tmp_path_factory.mktemp("kept")
    for run in (1, 2):
        store = CheckpointStore(folder / f"run-{run}")
        store.prepare()
        release = store.lock()
        for step in (10, 20):
            written(store, run, step)
        release()
    return folder


def texts(tree: StateTree) -> tuple[str, dict[str, list[float]]]:
    text, tensors = separate(tree)
    return text, {name: value.tolist() for name, value in tensors.items()}


def resumed(folder: Path) -> str:
    """How it ends to resume the newest in `folder`, whose run was 1."""
    try:
        found = CheckpointStore(folder).newest()
        if found is None:
            return "begins anew"
        found.check()
        states = {actor: texts(found.read(actor)) for actor in ACTORS}
    except CheckpointError as refused:
        return f"refused: {refused}"
    assert states == {actor: texts(state(1, found.manifest.step, actor)) for actor in ACTORS}, "other bits"
    return f"goes on after step {found.manifest.step}"


@pytest.mark.parametrize("kind", sorted(DAMAGES))
def test_a_damaged_checkpoint_is_refused_or_read_to_the_bit(kind: str, kept: Path, tmp_path: Path) -> None:
    for number in range(4):
        draw, folder = random.Random(f"{kind} {number}"), tmp_path / str(number)
        shutil.copytree(kept, folder, symlinks=True)
        newest, others = folder / "run-1/step-00000020", [folder / "run-1/step-00000010", folder / "run-2/step-00000020"]
        DAMAGES[kind](newest, others, draw)
        ending = resumed(folder / "run-1")
        assert ending == "goes on after step 20" or ending.startswith("refused: "), ending


def test_the_damage_is_named_with_what_is_intact(kept: Path, tmp_path: Path) -> None:
    def refused(name: str, content: bytes) -> str:
        folder = tmp_path / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept / "run-1", folder)
        (folder / "step-00000020" / name).write_bytes(content)
        return resumed(folder).replace(str(folder), "DIR")

    intact = "Intact in its directory: step-00000010; give the path of one as resume in Python, or delete step-00000020 and later ones."
    run = Checkpoint(kept / "run-2/step-00000020").manifest.run
    other = (kept / "run-2/step-00000020/worker-1.safetensors").read_bytes()
    assert refused("worker-1.safetensors", other) == (
        "refused: DIR/step-00000020 is damaged, or not a checkpoint: worker-1.safetensors is a file of worker/1 after step 20 of the run "
        f"{run}, not the one that was written here. {intact}"
    )
    assert refused("server-0.json", b"{}") == (
        "refused: DIR/step-00000020 is damaged, or not a checkpoint: server-0.json has 2 bytes, where "
        f"{(kept / 'run-1/step-00000020/server-0.json').stat().st_size} were written. {intact}"
    )
    torn = bytearray((kept / "run-1/step-00000020/worker-0.safetensors").read_bytes())
    torn[-1] ^= 1
    assert refused("worker-0.safetensors", bytes(torn)) == (
        "refused: DIR/step-00000020 is damaged, or not a checkpoint: worker-0.safetensors has another content than was written: its "
        f"SHA-256 differs. {intact}"
    )
    assert "its manifest.json cannot be used (it is not what a run writes: " in refused("manifest.json", b"{")


def test_where_nothing_is_intact_that_is_reported(kept: Path, tmp_path: Path) -> None:
    shutil.copytree(kept / "run-1", tmp_path / "copy")
    for path in (tmp_path / "copy").glob("step-*/worker-0.json"):
        path.unlink()
    assert resumed(tmp_path / "copy").endswith(
        "worker-0.json is missing. No other in its directory is intact: begin a new run in another directory."
    )


def test_the_state_of_an_actor_that_had_none_is_refused(kept: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no state of server/7, which had none to write in the run of that checkpoint: resume"):
        Checkpoint(kept / "run-1/step-00000020").read("server/7")


def write_until_killed(folder: Path) -> None:
    store = CheckpointStore(folder)
    store.prepare()
    store.lock()
    found = store.newest()
    step = 0 if found is None else found.manifest.step
    while True:
        step += 1
        written(store, 1, step)


def killed_in_mid_write(folder: Path, kills: int) -> None:
    """Child processes that write checkpoints are killed at random moments; each goes on from what the one before has left."""
    draw, before = random.Random(35), 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                write_until_killed(folder)
            finally:
                os._exit(1)
        while not (left := CheckpointStore(folder).whole()) or int(left[-1].name[5:]) <= before:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert resumed(folder).startswith("goes on after step ")
        for path in CheckpointStore(folder).whole():
            assert Checkpoint(path).intact
            before = Checkpoint(path).manifest.step
    store = CheckpointStore(folder)
    release = store.lock()
    assert sorted(path for path in folder.iterdir() if path.is_dir()) == store.whole(), "what was half-written has gone"
    written(store, 1, before + 1)
    release()
    assert len(list(folder.iterdir())) == store.keep, "and so have checkpoints that a kill kept from being deleted"


def test_what_a_kill_in_mid_write_leaves_can_be_resumed(tmp_path: Path) -> None:
    killed_in_mid_write(tmp_path, 10)


@pytest.mark.long
def test_a_hundred_kills_in_mid_write_leave_a_whole_checkpoint(tmp_path: Path) -> None:
    killed_in_mid_write(tmp_path, 100)
