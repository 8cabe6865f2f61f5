from pathlib import Path

import pytest
import torch

from polyrhythm.checkpoints.checkpoint import Manifest
from polyrhythm.checkpoints.store import CheckpointStore, find
from polyrhythm.errors import CheckpointError


def written(store: CheckpointStore, step: int) -> Path:
    store.partial(step).write("worker/0", {"step": step, "w": torch.full((2,), float(step))})
    return store.commit(step, Manifest(step, 1.5, 1, 0, 7, {"codec": "Identity()"}, [["worker/0"]])).path


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
    store.commit(4, Manifest(4, 9.0, 1, 0, 7, {}, []))
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
    store.clean()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_damage_is_reported_with_what_to_do(tmp_path: Path) -> None:
    path = written(CheckpointStore(tmp_path), 1)
    (path / "worker-0.safetensors").write_bytes(b"\x08")
    with pytest.raises(CheckpointError, match=r"is damaged: the state of worker/0 cannot be read .* Delete it to resume"):
        find(path).read("worker/0")
    (path / "manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"is damaged, or not a checkpoint: .* Delete it"):
        _ = find(path).manifest


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


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.partial(1)
    store.commit(1, Manifest(1, 0.0, 1, 0, 7, {}, [], version=99))
    with pytest.raises(CheckpointError, match="version 99 of the format, and this release reads version 1"):
        _ = find(tmp_path).manifest
