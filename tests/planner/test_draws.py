"""The values that the optimiser of a search minimizes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from polyrhythm.tools.planner.draws import Draws


def value(cost: float, expected: float, fewest: float) -> float:
    """The value of a run with these costs: to the target, expected, and up to the fewest samples that any candidate has needed."""
    search = SimpleNamespace(cost_of=lambda _: cost, expected=lambda _: expected, fewest=1.0, objective_of=lambda _: None, best=fewest)
    draws: Any = SimpleNamespace(search=search)
    return Draws._value(draws, SimpleNamespace(workers=2), SimpleNamespace(cost_of=lambda *_: fewest))  # type: ignore[arg-type]


@pytest.mark.parametrize("cost", [0.1, 10.0, 1e9, 1e30])
def test_a_run_of_unknown_cost_is_worse_than_any_other(cost: float) -> None:
    unknown = value(math.inf, math.inf, math.inf)
    assert value(cost, cost, cost) < value(math.inf, cost, cost) < unknown
