"""SIGTERM and the like end a run as Ctrl-C does: the record says so, nothing is left, and a last checkpoint is written where one can be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from leftovers import descendants, soon
from toy import network

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.checkpoints.store import CheckpointStore
from polyrhythm.core.kernel.events import AnyEvent, Saved, Stepped
from polyrhythm.core.processes import Processes
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.records.load import load
from polyrhythm.core.training.run import attempt
from polyrhythm.errors import CompositionError, Stopped, WorkerFailed, WorkerStopped
from polyrhythm.systems import resolve

from .scenes import flat, go, loop, sgd, trains
from .scripts import Forker, forker

ENDING = [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]
SCRIPT = str(Path(__file__).with_name("stopped.py"))


def at_step(step: int, deed: Callable[[], object], epochs: int = 2) -> Any:
    """A training function in which worker 0 does `deed` after `step` steps."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        usual = optimizer.step

        def stepped() -> None:
            usual()
            if worker.rank == 0 and worker.clock == step:
                deed()

        optimizer.step = stepped
        loop(worker, model, optimizer, epochs)

    return train


@pytest.mark.parametrize("number", ENDING)
def test_a_run_in_virtual_time_is_stopped_by_a_signal(number: signal.Signals, tmp_path: Path, capsys: Any) -> None:
    signal.signal(number, signal.SIG_DFL)  # what these tests are started by may have had them ignored, as nohup does
    with pytest.raises(Stopped) as caught:
        go(at_step(5, lambda: signal.raise_signal(number)), directory=tmp_path)
    kept = load(tmp_path)
    assert (kept.state, kept.summary.steps) == ("interrupted", 5)
    assert (kept.summary.error or "").startswith(f"The run was stopped by {number.name}: {len(kept.events)} events until ")
    assert caught.value.code == 128 + number
    assert capsys.readouterr().err.endswith(f"polyrhythm: stopped by {number.name}\n")
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("system", ["allreduce", "softsync", pytest.param("gossipgrad", marks=pytest.mark.long)])
def test_the_last_checkpoint_is_one_from_which_the_run_ends_with_the_same_bits(system: str, tmp_path: Path) -> None:
    train = at_step(3, lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(Stopped) as caught:
        go(train, system, directory=tmp_path / "record", checkpoints=Checkpoints(tmp_path / "ck"))
    store = CheckpointStore(tmp_path / "ck")
    (whole,) = store.whole()
    assert caught.value.kept
    assert f"A last checkpoint was written, {whole}, " in (load(tmp_path / "record").summary.error or "")
    resumed = go(train, system, checkpoints=Checkpoints(tmp_path / "ck", resume=True))  # which does not come to that step again
    assert torch.equal(flat(resumed), flat(go(trains(sgd, epochs=2), system)))


def test_a_second_signal_does_not_wait_for_a_checkpoint(tmp_path: Path) -> None:
    def twice() -> None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped):
        go(at_step(3, twice), directory=tmp_path / "record", checkpoints=Checkpoints(tmp_path / "ck"))
    text = load(tmp_path / "record").summary.error or ""
    assert "No last checkpoint could be written (grace=20 seconds). There is no checkpoint." in text


def test_after_the_grace_time_the_run_is_broken_off(tmp_path: Path) -> None:
    def hang() -> None:
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(30)

    began = time.monotonic()
    with pytest.raises(Stopped) as caught:
        go(at_step(3, hang), checkpoints=Checkpoints(tmp_path / "ck", grace=0.2))
    assert caught.value.kept is False
    assert time.monotonic() - began < 15


def test_no_grace_requests_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(Stopped) as caught:
        go(at_step(3, lambda: signal.raise_signal(signal.SIGTERM)), checkpoints=Checkpoints(tmp_path / "ck", grace=0))
    assert caught.value.kept is None
    with pytest.raises(CompositionError, match="grace=-1 is no time to write a last checkpoint in"):
        Checkpoints(grace=-1)


def test_a_handler_of_the_programs_own_is_respected(tmp_path: Path) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        result = go(at_step(3, lambda: signal.raise_signal(signal.SIGTERM)), checkpoints=Checkpoints(tmp_path / "ck"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (came, result.summary.steps) == ([signal.SIGTERM], 12)


def stop_at_a_step(deed: Callable[[], object] = lambda: signal.raise_signal(signal.SIGTERM)) -> Callable[[AnyEvent], None]:
    """Watches a run, and asks it to stop once it takes steps."""
    requested: list[bool] = []

    def watch(event: AnyEvent) -> None:
        if isinstance(event, Stepped) and not requested:
            requested.append(True)
            deed()

    return watch


def real(system: str, directory: Path, watch: Callable[[AnyEvent], None], epochs: int = 1000, grace: float = 20.0) -> Any:
    wanted = Checkpoints(directory / "ck", grace=grace)
    return attempt(
        trains(sgd, epochs=epochs),
        workers=2,
        strategy=resolve(system),
        on=Processes(),
        directory=directory / "record",
        watch=watch,
        checkpoints=wanted,
    )


@pytest.mark.parametrize("system", ["downpour", *(pytest.param(name, marks=pytest.mark.long) for name in ("allreduce", "softsync", "sgp"))])
def test_real_processes_write_a_last_checkpoint_and_are_gone(system: str, tmp_path: Path) -> None:
    with pytest.raises(Stopped) as caught:
        real(system, tmp_path, stop_at_a_step())
    kept = load(tmp_path / "record")
    (whole,) = CheckpointStore(tmp_path / "ck").whole()
    assert caught.value.kept
    assert kept.state == "interrupted"
    assert f"stopped by SIGTERM: {len(kept.events):,} events until " in (kept.summary.error or "")
    assert [event.clock for event in kept.events if isinstance(event, Saved)] == [int(whole.name.removeprefix("step-"))]


LAUNCHED = """
import os, sys, time
import torch
import polyrhythm as pr

def train(worker):
    model = torch.nn.Linear(2, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    if worker.rank == 1:
        print(os.getpid(), flush=True)
    for step in range(10**6):
        worker.count(1)
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

pr.run(train, directory=sys.argv[1], strategy=sys.argv[2])
"""


def launched(tmp_path: Path, system: str = "allreduce") -> subprocess.Popen[str]:
    """A script that runs, in a process group of its own."""
    words = [sys.executable, "-c", textwrap.dedent(LAUNCHED), str(tmp_path), system]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment)


def test_a_signal_to_all_processes_of_a_job_is_the_launchers_to_handle(tmp_path: Path) -> None:
    with launched(tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        below = descendants(process.pid)
        for each in (*below, process.pid):  # as systemd and SLURM do
            os.kill(each, signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (143, "polyrhythm: stopped by SIGTERM\n")
    assert load(tmp_path).state == "interrupted"
    assert soon(lambda: not any(Path(f"/proc/{each}").exists() for each in below))


@pytest.mark.long
def test_a_worker_that_alone_is_stopped_is_a_loss(tmp_path: Path) -> None:
    with launched(tmp_path) as process:
        assert process.stdout is not None
        os.kill(int(process.stdout.readline()), signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "worker/1 failed: killed by signal 15 (SIGTERM)" in err
    assert load(tmp_path).summary.error == "worker/1 failed: killed by signal 15 (SIGTERM)"


@pytest.fixture(scope="module")
def ranks() -> Iterator[Forker]:
    with forker() as made:
        yield made


def joined(
    ranks: Forker, directory: Path, system: str, to: Callable[[list[int]], Iterable[int]], *options: str, **variables: str
) -> list[Any]:
    """How two joined scripts end when those processes of `to` are sent SIGTERM while they train."""
    pids = ranks.start(directory, [SCRIPT, system, *options], 2, **variables)
    assert soon(lambda: all((directory / f"up.{rank}").exists() for rank in range(2)))
    for pid in to(pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return ranks.wait(directory, pids, 40.0)


def everyone(pids: list[int]) -> list[int]:
    return pids


def last(pids: list[int]) -> list[int]:
    return pids[1:]


@pytest.mark.parametrize("system", ["allreduce", pytest.param("downpour", marks=pytest.mark.long)])
def test_joined_workers_stop_together_with_a_last_checkpoint(system: str, ranks: Forker, tmp_path: Path) -> None:
    ended = joined(ranks, tmp_path, system, everyone, "checkpoint", SLURM_PROCID="")
    (whole,) = CheckpointStore(tmp_path / "ck").whole()
    for rank, each in enumerate(ended):
        assert each.code == 143
        assert (
            f"polyrhythm: worker/{rank}: stopped by SIGTERM from its launcher (srun). A last checkpoint was written, ck/{whole.name}, "
            in each.err
        )
        kept = load(tmp_path / "record" / f"worker-{rank}")
        assert kept.state == "interrupted"
        assert "stopped by SIGTERM from its launcher (srun): " in (kept.summary.error or "")


@pytest.mark.parametrize("by", ["script", "command"])
def test_joined_workers_that_are_signalled_again_and_again_close_their_records_first(by: str, ranks: Forker, tmp_path: Path) -> None:
    def pestered(pids: list[int]) -> Iterator[int]:
        for _ in range(20):
            yield from pids
            time.sleep(0.03)

    for rank, each in enumerate(joined(ranks, tmp_path, "allreduce", pestered, by, TORCHELASTIC_RUN_ID="none")):
        assert each.code in (143, -signal.SIGTERM)  # a last one may come when Python has ended all but itself
        assert each.err.count(f"worker/{rank}: stopped by SIGTERM from its launcher (torchrun)") == 1
        assert load(tmp_path / "record" / f"worker-{rank}").state == "interrupted"


def test_what_ends_the_command_of_one_worker_is_what_the_others_hear(ranks: Forker, tmp_path: Path) -> None:
    for rank, each in enumerate(ranks.run(tmp_path, [SCRIPT, "allreduce", "command"], 2, 60.0, DIVERGES="1")):
        assert each.code == 1
        text = load(tmp_path / "record" / f"worker-{rank}").summary.error or ""
        assert "loss" in text
        assert "the training diverged" in text
        assert "sys.exit" not in text


def test_one_joined_worker_that_is_stopped_takes_the_others_along_with_a_last_checkpoint(ranks: Forker, tmp_path: Path) -> None:
    first, second = joined(ranks, tmp_path, "allreduce", last, "checkpoint")
    assert (first.code, second.code) == (1, 143)
    assert len(CheckpointStore(tmp_path / "ck").whole()) == 1
    text = load(tmp_path / "record" / "worker-0").summary.error or ""
    assert text.startswith("worker/1 failed: it was ")
    assert "a last checkpoint was written before" in text


def test_a_joined_worker_that_is_stopped_is_lost_where_the_others_go_on(ranks: Forker, tmp_path: Path) -> None:
    first, second = joined(ranks, tmp_path, "downpour", last, "short", TORCHELASTIC_RUN_ID="none")
    assert (first.code, second.code) == (0, 143)
    assert "worker/0 continues without worker/1, whose connection was lost. But torchrun ends all workers when one is lost" in first.err
    assert load(tmp_path / "record" / "worker-0").summary.lost == ["worker/1"]


def test_a_joined_worker_does_not_outlive_its_launcher(tmp_path: Path) -> None:
    start = f"subprocess.Popen([sys.executable, {SCRIPT!r}, 'allreduce'])"
    inner = f"import subprocess, sys, time; {start}; time.sleep(60)"
    variables = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "TORCHELASTIC_RUN_ID": "none",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with subprocess.Popen([sys.executable, "-c", inner], cwd=tmp_path, env={**os.environ, **variables}) as launcher:
        assert soon(lambda: (tmp_path / "up.0").exists())
        launcher.kill()
    assert soon(lambda: load(tmp_path / "record" / "worker-0").state == "failed")
    text = load(tmp_path / "record" / "worker-0").summary.error or ""
    assert text.startswith(f"torchrun (process {launcher.pid}), which started worker/0, has ended: ")


def test_what_others_have_failed_with_is_raised_again_as_what_it_was() -> None:
    again = failure.rebuild(failure.failure_message("worker/1", Stopped(signal.SIGTERM)))
    assert isinstance(again, WorkerStopped)
    assert str(again) == "worker/1 failed: it was stopped by SIGTERM"
    assert not isinstance(failure.rebuild(failure.failure_message("worker/1", WorkerFailed("worker/1", "no"))), WorkerStopped)
