"""The record of a run that is under way, on disks that fill up and directories that vanish."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from polyrhythm.core.records import record as records
from polyrhythm.core.records.directory import EVENTS, RESERVE, RUN, WEIGHTS
from polyrhythm.core.records.load import load
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.records.record import Record
from polyrhythm.core.units import show_seconds

from .scenes import outcome


@contextmanager
def files_of_at_most(nbytes: int) -> Iterator[None]:
    """Writing beyond `nbytes` of a file fails, as on a full disk; what is before that is written, also of a line."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def started(path: Path) -> tuple[Outcome, Record]:
    """A run that has started, and its record."""
    run = outcome("ssp", workers=2, steps=20)
    run.state = "running"
    run.weights = {"w": torch.zeros(10_000)}
    return run, Record(run, path)


def follow(run: Outcome, record: Record) -> None:
    """All events of `run` happen, one after the other."""
    events = list(run.events)
    run.events.clear()
    for event in events:
        run.events.append(event)
        record.follow()
    run.state = "ended"


def test_a_run_under_way_is_read_as_such_and_one_that_was_killed_too(tmp_path: Path) -> None:
    run, record = started(tmp_path)
    begin = load(tmp_path)
    assert (begin.summary.error, begin.events) == ("The run is still running: 0 events so far.", [])
    record.follow()
    seen = load(tmp_path)
    end = show_seconds(max(event.time for event in run.events))
    assert (seen.summary.steps, seen.events, seen.remarks) == (20, run.events, [])
    assert seen.summary.error == f"The run is still running: {len(run.events)} events until {end} so far."
    with (tmp_path / EVENTS).open("ab") as file:
        file.write(b'{"type":"Stepped"')
    assert load(tmp_path).remarks == []  # a line that is being written is no damage
    killed = load(shutil.copytree(tmp_path, tmp_path / "copy"))  # nobody writes this one, as when the process was killed
    assert killed.summary.error == f"The run did not end: {len(run.events)} events until {end}."
    assert len(killed.remarks) == 1
    assert record.finish() == []
    assert (killed.summary.samples, killed.summary.bytes_sent > 0, killed.time) == (1280, True, max(event.time for event in run.events))


def test_events_that_were_streamed_are_not_written_again(tmp_path: Path) -> None:
    run, record = started(tmp_path)
    follow(run, record)
    before = (tmp_path / EVENTS).stat()
    assert record.finish() == []
    after = (tmp_path / EVENTS).stat()
    assert (before.st_ino, before.st_mtime_ns, before.st_size) == (after.st_ino, after.st_mtime_ns, after.st_size)


def test_a_disk_that_is_full_for_a_while_costs_nothing(tmp_path: Path) -> None:
    run, record = started(tmp_path)
    with files_of_at_most(5_000):
        follow(run, record)
    assert record.finish() == []
    again = load(tmp_path)
    assert (again.events, again.remarks, again.state) == (run.events, [], "ended")


def test_a_disk_that_stays_full_costs_what_has_no_room_and_reports_it(tmp_path: Path) -> None:
    run, record = started(tmp_path)
    with files_of_at_most(5_000):
        follow(run, record)
        troubles = record.finish()
    assert [name for trouble in troubles for name in (EVENTS, WEIGHTS, RUN) if f": {name} " in trouble] == [EVENTS, WEIGHTS]
    assert all("File too large" in trouble for trouble in troubles)
    again = load(tmp_path)
    assert 0 < len(again.events) < len(run.events)
    assert again.events == run.events[: len(again.events)]  # cut between two lines
    assert (again.summary.final, again.state) == (run.summary.final, "ended")
    assert again.remarks == [*troubles, f"{WEIGHTS} is missing."]


def test_a_disk_without_any_room_leaves_the_provisional_record(tmp_path: Path) -> None:
    run, record = started(tmp_path)
    with files_of_at_most(100):
        follow(run, record)
        assert len(record.finish()) == 3
    again = load(tmp_path)
    assert (again.state, again.summary.error) == ("running", "The run did not end: 2 events until 0 µs.")


def test_room_is_kept_for_the_numbers(tmp_path: Path) -> None:
    run, record = started(tmp_path)
    size = (tmp_path / RESERVE).stat().st_size
    follow(run, record)
    run.weights = {}
    assert record.finish() == []
    assert not (tmp_path / RESERVE).exists()
    assert (tmp_path / RUN).stat().st_size < size


def test_the_error_of_a_full_disk_is_reported_in_the_systems_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    run, record = started(tmp_path)
    follow(run, record)
    monkeypatch.setattr(records, "write", full)
    assert record.finish() == [f"The record in {tmp_path} is incomplete: run.json could not be written (No space left on device)."]


def test_a_directory_that_vanished_is_written_anew(tmp_path: Path) -> None:
    run, record = started(tmp_path / "run")
    record.follow()
    shutil.rmtree(tmp_path / "run")
    follow(run, record)
    assert record.finish() == []
    assert load(tmp_path / "run").events == run.events


def test_a_directory_in_whose_place_is_a_file_is_reported(tmp_path: Path) -> None:
    run, record = started(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").touch()
    follow(run, record)
    (trouble,) = record.finish()
    assert "cannot be a run directory: File exists" in trouble
    assert run.remarks == [trouble]


def test_an_interruption_between_an_event_and_its_line_doubles_and_loses_nothing(tmp_path: Path) -> None:
    run, record = started(tmp_path)
    events = list(run.events)
    run.events.clear()
    for index, event in enumerate(events):
        run.events.append(event)
        if index % 3:  # at every third, what should have followed was interrupted
            record.follow()
    run.state = "interrupted"
    assert record.finish() == []
    assert load(tmp_path).events == events
