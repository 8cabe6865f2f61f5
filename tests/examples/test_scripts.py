"""Ordinary scripts of one process, and what they become: few lines change, and every system trains them, each worker on its own share."""

from __future__ import annotations

import difflib
import json
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyrhythm.tools.cli.app import app

from .scenes import EXAMPLES, ORIGINALS, REAL, SCRIPTS, SYSTEMS, VIRTUAL, check, trained


def changed(before: list[str], after: list[str]) -> int:
    """Lines that were added, taken away or are another now."""
    edits = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(b - a, d - c) for kind, a, b, c, d in edits if kind != "equal")


CASES = [pytest.param(*case, marks=[pytest.mark.long] if case[0] == "gan" else []) for case in product(SCRIPTS, SYSTEMS)]
FIRST = [name if number == 0 else pytest.param(name, marks=pytest.mark.long) for number, name in enumerate(SCRIPTS)]
"""One script is tried at once; the others are left to the long tests."""


@pytest.fixture(autouse=True)
def _one_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["script.py", "--epochs", "1"])


@pytest.mark.parametrize("original", sorted(ORIGINALS.glob("*.py")), ids=lambda path: path.stem)
def test_at_most_five_lines_of_a_script_change(original: Path) -> None:
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (original, EXAMPLES / original.name))
    assert 0 < changed(before, after) <= 5


@pytest.mark.parametrize(("name", "system"), CASES)
def test_every_system_trains_a_script_in_virtual_time(name: str, system: str, tmp_path: Path) -> None:
    check(SCRIPTS[name], trained(EXAMPLES / f"{name}.py", system, VIRTUAL, tmp_path), tmp_path)


@pytest.mark.parametrize("name", FIRST)
def test_real_processes_train_a_script_to_the_same_weights(name: str, tmp_path: Path) -> None:
    virtual = trained(EXAMPLES / f"{name}.py", "allreduce", VIRTUAL, tmp_path)
    real = trained(EXAMPLES / f"{name}.py", "allreduce", REAL, tmp_path)
    check(SCRIPTS[name], real, tmp_path)
    assert real.summary.weights_sha256 == virtual.summary.weights_sha256


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_system_trains_a_script_on_real_processes(name: str, system: str, tmp_path: Path) -> None:
    check(SCRIPTS[name], trained(EXAMPLES / f"{name}.py", system, REAL, tmp_path), tmp_path)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_command_runs_a_script(name: str) -> None:
    words = ["run", str(EXAMPLES / f"{name}.py"), "--on", "simulator", "--json", "--", "--epochs", "1"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert SCRIPTS[name].metric in json.loads(result.stdout)["final"]
