import json
from pathlib import Path

import pytest
import torch

from polyrhythm.core.checkpoints.checkpoint import PartialCheckpoint
from polyrhythm.core.checkpoints.manifest import Manifest
from polyrhythm.core.checkpoints.store import CheckpointStore, find
from polyrhythm.errors import CheckpointError


def written(store: CheckpointStore, step: int) -> Path:
    store.partial(step).write("worker/0", {"step": step, "w": torch.full((2,), float(step))})
    return store.commit(step, Manifest(step, 1.5, ["worker/0"], 0, 7, {"codec": "Identity()"}, [["worker/0"]])).path


def test_what_is_committed_can_be_found_and_read(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "new" / "folder")
    assert store.newest() is None
    path = written(store, 3)
    found = find(tmp_path / "new" / "folder")
    assert found.path == path
    assert (found.manifest.step, found.manifest.seconds, found.manifest.seed) == (3, 1.5, 7)
    assert torch.equal(found.read("worker/0")["w"], torch.full((2,), 3.0))


def test_the_newest_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    for step in (9, 10, 100):
        written(store, step)
    assert [path.name for path in store.whole()] == ["step-00000010", "step-00000100"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000100"]


def test_a_step_that_is_reached_again_replaces_the_earlier_one(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    written(store, 4)
    store.partial(4).write("worker/0", {"w": torch.zeros(1)})
    store.commit(4, Manifest(4, 9.0, ["worker/0"], 0, 7, {}, []))
    assert find(tmp_path).manifest.seconds == 9.0


def test_checkpoints_after_the_step_that_was_resumed_are_of_another_run_and_go(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=2)
    for step in (20, 40, 60):
        written(store, step)
    written(store, 50)
    assert [path.name for path in store.whole()] == ["step-00000040", "step-00000050"]


def test_what_is_half_written_is_no_checkpoint_and_is_deleted_by_the_next_run(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    written(store, 1)
    store.partial(2).write("worker/0", {"w": torch.zeros(1)})
    assert [path.name for path in store.whole()] == ["step-00000001"]
    release = store.lock()
    release()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_a_directory_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no complete checkpoint"):
        find(tmp_path)


def test_a_directory_that_cannot_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(CheckpointError, match=r"No checkpoint can be written in .*: give one"):
            CheckpointStore(place).prepare()
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(CheckpointError, match=r"Permission denied"):
        CheckpointStore(tmp_path).prepare()


def test_a_checkpoint_is_no_directory_for_others(tmp_path: Path) -> None:
    whole = written(CheckpointStore(tmp_path), 3)
    with pytest.raises(CheckpointError, match="is a checkpoint itself: give the directory it is in"):
        CheckpointStore(whole).prepare()


@pytest.mark.parametrize("version", [1, 99])
def test_another_version_of_the_format_is_refused(version: int, tmp_path: Path) -> None:
    path = written(CheckpointStore(tmp_path), 1)
    (path / "manifest.json").write_text(json.dumps({"step": 1, "version": version}))
    with pytest.raises(CheckpointError, match=f"was written in version {version} of the format, and this release reads version 3: resume"):
        _ = find(tmp_path).manifest


def test_a_directory_has_one_run_at_a_time(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    release = store.lock()
    for other in (CheckpointStore(tmp_path).prepare, CheckpointStore(tmp_path).lock):
        with pytest.raises(CheckpointError, match=r"Another run is writing its checkpoints into .*: give another directory, or wait"):
            other()
    release()
    assert list(tmp_path.iterdir()) == []
    store.prepare()
    store.lock()()


def test_what_a_killed_run_held_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".run").write_text("earlier")
    store = CheckpointStore(tmp_path)
    store.prepare()
    release = store.lock()
    name = store.partial(3).run
    assert len(name) == 16
    assert CheckpointStore(tmp_path).partial(3).run == name, "other processes of the run find it there"
    release()


def test_files_of_another_run_are_not_committed(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.partial(3).write("worker/0", {"step": 3})
    release = store.lock()
    store.partial(3).write("worker/1", {"step": 3})
    with pytest.raises(CheckpointError, match="has no file of worker/0"):  # what was half-written is gone
        store.commit(3, Manifest(3, 1.5, ["worker/0", "worker/1"], 0, 7, {}, []))
    PartialCheckpoint(store.partial(3).path, 3, "foreign").write("worker/0", {"step": 3})
    with pytest.raises(CheckpointError, match=r"worker-0.json is a file of worker/0 after step 3 of the run foreign: another run writes"):
        store.commit(3, Manifest(3, 1.5, ["worker/0", "worker/1"], 0, 7, {}, []))
    release()
    assert store.whole() == []
