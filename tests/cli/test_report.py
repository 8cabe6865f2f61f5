"""`polyrhythm report`: pages from runs that were kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def kept(polyrhythm: Any, tiny: Path, tmp_path: Path) -> Path:
    """A comparison that was kept, its page removed."""
    out = tmp_path / "kept"
    assert polyrhythm("compare", tiny, "--systems", "ssp,allreduce", "--on", "simulator", "--out", out).code == 0
    (out / "report.html").unlink()
    return out


def test_a_comparison_becomes_a_page(polyrhythm: Any, kept: Path) -> None:
    result = polyrhythm("report", kept)
    assert (result.code, result.out) == (0, f"{kept / 'report.html'}\n")
    text = (kept / "report.html").read_text()
    assert "ssp" in text
    assert "allreduce" in text


def test_single_runs_become_one_page(polyrhythm: Any, kept: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert polyrhythm("report", kept / "ssp" / "seed-0", kept / "allreduce" / "seed-0", "--out", page).code == 0
    assert "allreduce" in page.read_text()


def test_what_is_no_run_directory_is_refused(polyrhythm: Any, kept: Path, tmp_path: Path) -> None:
    result = polyrhythm("report", tmp_path)
    assert (result.code, result.out) == (2, "")
    assert "is not a run directory" in result.err
    (kept / "ssp" / "seed-0" / "run.json").write_text("{}")
    assert polyrhythm("report", kept / "ssp" / "seed-0").err.startswith("polyrhythm: The record in ")
    (kept / "compare.json").write_text("[]")
    assert "is not what polyrhythm compare writes" in polyrhythm("report", kept).err


def test_a_page_that_cannot_be_written_is_reported(polyrhythm: Any, kept: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = polyrhythm("report", kept, "--out", tmp_path / "file" / "page.html")
    assert result.code == 2
    assert "cannot be written" in result.err
