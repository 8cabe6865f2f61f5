"""`polyrhythm reproduce`: what it says, and what it refuses before anything is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyrhythm_reproductions.kept import read


def test_a_quick_run_states_that_it_is_no_verdict(polyrhythm: Any, tmp_path: Path) -> None:
    done = polyrhythm("reproduce", "parallel-sgd", "--quick", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path))
    assert done.code == 0
    assert "parallel-sgd: a quick run, which is no verdict" in done.out
    assert read(tmp_path / "parallel-sgd.json").quick


def test_a_report_with_more_seeds_is_not_replaced(polyrhythm: Any, tmp_path: Path) -> None:
    published = Path(__file__).parents[2] / "docs" / "reproductions" / "d2l.json"
    (tmp_path / "d2l.json").write_bytes(published.read_bytes())
    for few in (["--quick"], ["--seeds", "1"]):
        done = polyrhythm("reproduce", "d2l", *few, "--out", str(tmp_path))
        assert done.code == 2
        assert "has a report on d2l with 5 seeds" in done.err


def test_a_directory_that_cannot_be_written_is_refused_before_anything_is_run(polyrhythm: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/polyrhythm")):
        done = polyrhythm("reproduce", "d2l", "--quick", "--out", str(out))
        assert done.code == 2
        assert f"Pages cannot be written to {out}" in done.err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["d2l", "--all"], "--all runs every reproduction"),
        (["slowmo", "--seeds", "2"], "2 seeds are too few for a verdict"),
        (["hybrid-groups"], "hybrid-groups has no experiment of its own"),
        (["d2", "--quick"], "Did you mean"),
    ],
)
def test_what_cannot_be_run_is_refused(polyrhythm: Any, tmp_path: Path, given: list[str], message: str) -> None:
    done = polyrhythm("reproduce", *given, "--out", str(tmp_path))
    assert done.code == 2
    assert message in done.err
