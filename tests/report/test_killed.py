"""The record of a process that was killed is completed by who has seen it, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records import killed
from polyrhythm.core.records.load import load
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.record import Record


def started(directory: Path, state: str = "running") -> Record:
    """A record that is being written, with one event."""
    outcome = Outcome(Summary("ssp", 2, "processes", None, 0), state="running")
    record = Record(outcome, directory)
    outcome.events.append(Stepped(1.0, "worker/0", 1, 8, 0))
    record.follow()
    outcome.state = state  # type: ignore[assignment]
    return record


def test_a_record_whose_process_is_gone_reports_why(tmp_path: Path) -> None:
    started(tmp_path)._file.close()  # as the system does when a process ends
    killed.complete(tmp_path, "worker/1 failed: its process was killed")
    found = load(tmp_path)
    assert (found.state, found.summary.steps) == ("failed", 1)
    assert found.summary.error == "worker/1 failed: its process was killed: 1 event until 1 s."
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "failed"
    assert not (tmp_path / ".reserve").exists()


def test_a_record_that_is_still_written_or_whole_is_left_alone(tmp_path: Path) -> None:
    record = started(tmp_path, "ended")
    killed.complete(tmp_path, "no")
    assert load(tmp_path).state == "running"
    record.finish()
    killed.complete(tmp_path, "no")
    assert load(tmp_path).state == "ended"


@pytest.mark.parametrize("content", [None, b"{", b"[]"])
def test_what_is_no_record_is_left_alone(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    killed.complete(tmp_path, "no")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([] if content is None else [content])
