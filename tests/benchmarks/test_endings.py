"""The script of kills, stops and cut lines: what it draws, and a case of each launcher."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from polyrhythm.systems import SYSTEMS


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield importlib.import_module("endings")
    sys.modules.pop("endings", None)


def test_every_launcher_meets_every_attack_with_many_systems(endings: Any) -> None:
    drawn = endings.cases(150, 1)
    pairs = Counter((launcher, attack) for launcher, attack, _, _ in drawn)
    assert set(pairs) == {(launcher, attack) for launcher, attacks in endings.LAUNCHERS.items() for attack in attacks}
    assert max(pairs.values()) - min(pairs.values()) <= 1
    names = {system for _, _, system, _ in drawn}
    assert len(names) >= 24
    assert names <= set(SYSTEMS)
    assert drawn == endings.cases(150, 1) != endings.cases(150, 2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("launcher", "attack", "system"),
    [
        ("run", "SIGTERM to all", "ssp"),
        ("script", "SIGHUP", "gossipgrad"),
        ("simulator", "SIGTERM", "easgd"),
        ("compare", "SIGTERM", "allreduce"),
        ("join", "SIGKILL a worker", "allreduce"),
        ("srun-like", "SIGKILL", "downpour"),
        ("torchrun", "SIGTERM", "softsync"),
    ],
)
def test_a_run_that_is_attacked_ends_and_reports_why(endings: Any, launcher: str, attack: str, system: str) -> None:
    result = endings.Case(launcher, attack, system, 5).play()
    assert result.right, result
    assert result.unsaid == 0, result
