"""`polyrhythm diagnose`: why runs that were kept are slow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_a_kept_run_is_diagnosed(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    polyrhythm("run", tiny, "--system", "allreduce", "--network", "slow", "--out", tmp_path / "run")
    result = polyrhythm("diagnose", tmp_path / "run")
    assert result.code == 0
    assert "on the critical path" in result.out
    assert "latency: all links" in result.out


def test_each_run_of_a_comparison_is_diagnosed(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    assert polyrhythm("compare", tiny, "--systems", "ssp,single", "--network", "slow", "--out", out).code == 0
    found = json.loads(polyrhythm("diagnose", out, "--json").out)
    assert [each["system"] for each in found] == ["ssp", "single"]
    assert found[1]["causes"] == []


def test_a_real_run_is_diagnosed(polyrhythm: Any, tiny: Path, tmp_path: Path) -> None:
    assert polyrhythm("run", tiny, "--system", "allreduce", "--workers", "2", "--out", tmp_path / "run").code == 0
    found = json.loads(polyrhythm("diagnose", tmp_path / "run", "--json").out)
    assert abs(sum(part["share"] for part in found[0]["path"]) - 1) < 1e-6


def test_what_is_no_run_directory_is_refused(polyrhythm: Any, tmp_path: Path) -> None:
    result = polyrhythm("diagnose", tmp_path)
    assert result.code == 2
    assert "is not a run directory" in result.err
