"""`polyrhythm trace`: timelines from runs that were kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def kept(polyrhythm: Any, tiny: Path, tmp_path: Path) -> Path:
    """A comparison that was kept."""
    out = tmp_path / "kept"
    assert polyrhythm("compare", tiny, "--systems", "ssp,allreduce", "--on", "simulator", "--out", out).code == 0
    return out


def test_a_comparison_becomes_one_file_with_a_process_for_each_run(polyrhythm: Any, kept: Path) -> None:
    result = polyrhythm("trace", kept)
    assert (result.code, result.out) == (0, f"{kept / 'trace.json'}\n")
    events = json.loads((kept / "trace.json").read_text())["traceEvents"]
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == [
        "ssp, virtual time",
        "allreduce, virtual time",
    ]
    assert {"computing", "waiting", "step", "report"} <= {event["name"] for event in events}


def test_a_single_run_is_written_to_the_given_path(polyrhythm: Any, kept: Path, tmp_path: Path) -> None:
    assert polyrhythm("trace", kept / "ssp" / "seed-0", "--out", tmp_path / "mine.json").code == 0
    assert json.loads((tmp_path / "mine.json").read_text())["traceEvents"]


def test_what_is_no_run_directory_is_refused(polyrhythm: Any, tmp_path: Path) -> None:
    result = polyrhythm("trace", tmp_path)
    assert result.code == 2
    assert "is not a run directory" in result.err


def test_a_trace_that_cannot_be_written_is_reported(polyrhythm: Any, kept: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = polyrhythm("trace", kept, "--out", tmp_path / "file" / "trace.json")
    assert result.code == 2
    assert "cannot be written" in result.err


def test_a_timeline_shows_tensors_and_links(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    assert polyrhythm("run", tiny, "--system", "horovod", "--on", "simulator", "--timeline", "--out", out).code == 0
    assert polyrhythm("trace", out).code == 0
    events = json.loads((out / "trace.json").read_text())["traceEvents"]
    assert {"negotiation", "queue", "exchange"} <= {event["name"] for event in events}
    assert any(event["args"]["name"].endswith(": links") for event in events if event["name"] == "process_name")
