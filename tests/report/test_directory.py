"""Run directories as they are written: whole, or as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from polyrhythm.core import atomic
from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.records import directory
from polyrhythm.core.records.directory import EARLIER, EVENTS, RESERVE, RUN, WEIGHTS, save
from polyrhythm.core.records.load import load
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.records.record import Record
from polyrhythm.errors import CompositionError

from .scenes import outcome

FILES = [EVENTS, RUN, WEIGHTS]


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def made(system: str = "ssp", steps: int = 6, weights: dict[str, torch.Tensor] | None = None) -> Outcome:
    run = outcome(system, workers=2, steps=steps)
    run.weights = {"w": torch.arange(5.0)} if weights is None else weights
    return run


def fill(path: Path) -> None:
    """A disk without room for the weights."""
    raise OSError(28, "No space left on device", str(path))


def test_a_saved_run_is_loaded_as_it_was(tmp_path: Path) -> None:
    run = made()
    save(run, tmp_path / "deep" / "run")
    again = load(tmp_path / "deep" / "run")
    assert (again.summary, again.events, again.settings, again.state, again.remarks) == (run.summary, run.events, run.settings, "ended", [])
    assert names(tmp_path / "deep" / "run") == FILES


def test_saving_over_a_record_replaces_all_of_it(tmp_path: Path) -> None:
    save(made("ssp"), tmp_path)
    without = made("allreduce", weights={})
    without.summary.weights_sha256 = None
    save(without, tmp_path)
    assert names(tmp_path) == [EVENTS, RUN]
    assert load(tmp_path).summary.system == "allreduce"


def test_a_save_that_fails_leaves_the_record_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(made("ssp"), tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    monkeypatch.setattr(directory, "flush", fill)
    with pytest.raises(CompositionError, match=r"cannot be saved in .*: No space left on device\. Give another directory\."):
        save(made("allreduce"), tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in names(tmp_path)} == before


def test_what_a_killed_process_left_half_written_is_deleted(tmp_path: Path) -> None:
    (tmp_path / f".{RUN}.123.new").write_text("{")
    (tmp_path / ".record.123.new").mkdir()
    (tmp_path / ".mine").touch()
    save(made(), tmp_path)
    assert names(tmp_path) == [".mine", *FILES]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file", "file cannot be a run directory: File exists"),
        ("file/below", "cannot be a run directory: Not a directory"),
        ("/proc/polyrhythm", "cannot be a run directory"),
        ("x" * 300, "File name too long"),
        ("a\0b", "null character"),
        ("\ud800", "not a path"),
        (5, "5 is not a path"),
    ],
)
def test_what_can_be_no_run_directory_is_refused_with_a_sentence(tmp_path: Path, place: Any, words: str) -> None:
    (tmp_path / "file").touch()
    place = str(tmp_path / place) if isinstance(place, str) and not place.startswith("/") else place
    for attempt in (lambda: save(made(), place), lambda: Record(made(), place)):
        with pytest.raises(CompositionError, match=words):
            attempt()
    with pytest.raises(CompositionError):
        load(place)


@pytest.mark.parametrize(
    "weights",
    [
        {"a": (shared := torch.zeros(4)), "b": shared},
        {"a": torch.zeros(3, 4).t(), "b": shared[:2]},
        {"a": torch.zeros(3, requires_grad=True), "b": torch.zeros(()), "c": torch.zeros(0)},
        {
            "a": torch.zeros(2, dtype=torch.complex64).conj(),
            "b": torch.zeros(2).to(torch.float8_e5m2),
            "": torch.zeros(1, dtype=torch.bool),
        },
    ],
    ids=["shared", "not contiguous", "odd shapes", "odd types"],
)
def test_weights_of_every_layout_are_kept(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    save(made(weights=weights), tmp_path)
    kept = load_file(tmp_path / WEIGHTS)
    assert all(
        torch.equal(
            kept[name].float() if tensor.dtype == torch.float8_e5m2 else kept[name],
            tensor.detach().resolve_conj().float() if tensor.dtype == torch.float8_e5m2 else tensor.detach(),
        )
        for name, tensor in weights.items()
    )


@pytest.mark.parametrize(
    "weights",
    [
        {"a": torch.eye(3).to_sparse()},
        {"a": torch.zeros(2, dtype=torch.complex128)},
        {"__metadata__": torch.zeros(2)},
        {"\udcff": torch.zeros(2)},
    ],
    ids=["sparse", "complex128", "a name that means something else", "a name that is no text"],
)
def test_weights_that_safetensors_cannot_hold_cost_the_weights_alone(tmp_path: Path, weights: dict[str, torch.Tensor]) -> None:
    with pytest.raises(CompositionError):
        save(made(weights=weights), tmp_path / "saved")
    run = made(weights=weights)
    record = Record(run, tmp_path)
    record.follow()
    assert [WEIGHTS in trouble for trouble in record.finish()] == [True]
    again = load(tmp_path)
    assert (again.events, again.summary.final) == (run.events, run.summary.final)
    assert again.remarks == [*run.remarks, f"{WEIGHTS} is missing."]


def test_names_that_no_file_can_hold_are_written_as_escapes(tmp_path: Path) -> None:
    run = made()
    run.settings["train"] = "caf\udce9"
    run.summary.final = {"\udcff": 1.0}
    run.events.append(Reported(99.0, "worker/0", 6, {"\udcff": 1.0, 'a"b\n\0': 2.0}, 5))
    save(run, tmp_path)
    again = load(tmp_path)
    assert again.settings["train"] == r"caf\udce9"
    assert again.events[-1] == Reported(99.0, "worker/0", 6, {r"\udcff": 1.0, 'a"b\n\0': 2.0}, 5)


def test_a_file_is_as_it_was_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic.write(path, b"old")

    def interrupted() -> None:
        with atomic.replacing(path) as fresh:
            fresh.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (path.read_bytes(), names(tmp_path)) == (b"old", ["file"])


def test_a_link_stays_a_link_and_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    atomic.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    (tmp_path / "null").symlink_to("/dev/null")
    atomic.write(tmp_path / "null", b"gone")
    assert not Path("/dev/null").is_file()


def test_an_earlier_record_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    save(made("ssp"), tmp_path)
    running = made("allreduce")
    running.state = "running"
    record = Record(running, tmp_path)
    record.follow()
    assert names(tmp_path) == [EARLIER, RESERVE, EVENTS, RUN]  # the old weights are not next to the new events
    assert load(tmp_path / EARLIER).summary.system == "ssp"
    assert load(tmp_path).summary.system == "allreduce"
    running.state = "ended"
    assert record.finish() == []
    assert names(tmp_path) == FILES


def test_the_last_record_with_weights_stays_when_runs_fail_one_after_the_other(tmp_path: Path) -> None:
    save(made("ssp"), tmp_path)
    for _ in range(2):
        failing = made("allreduce", weights={})
        failing.state = "failed"
        Record(failing, tmp_path).finish()
    assert load(tmp_path / EARLIER).summary.system == "ssp"
    assert names(tmp_path / EARLIER) == FILES


def test_a_record_that_cannot_be_started_leaves_the_earlier_one_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(made("ssp"), tmp_path)
    monkeypatch.setattr(atomic, "flush", fill)
    with pytest.raises(CompositionError, match=r"No record can be written in .*: No space left on device\."):
        Record(made("allreduce"), tmp_path)
    assert names(tmp_path) == FILES
    assert load(tmp_path).summary.system == "ssp"


def test_two_runs_do_not_write_into_one_directory(tmp_path: Path) -> None:
    record = Record(made("ssp"), tmp_path)
    record.follow()
    for attempt in (lambda: Record(made("allreduce"), tmp_path), lambda: save(made("allreduce"), tmp_path)):
        with pytest.raises(CompositionError, match="Another run is writing its record into"):
            attempt()
    assert record.finish() == []
    assert load(tmp_path).summary.system == "ssp"
