"""Fragments of a model: every n-th module that owns parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polyrhythm.core.kernel.location import Location
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.core.strategy.division import divided
from polyrhythm.core.strategy.strategy_plan import StrategyPlan
from polyrhythm.errors import CompositionError
from polyrhythm.parameters import Fragment


def model() -> nn.Module:
    block = lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU())  # noqa: E731
    return nn.Sequential(block(), block(), nn.Linear(4, 1))


def parts(fragments: int) -> list[list[str]]:
    """The parameters of each exchange, as a run divides them: that of the first fragment comes last."""
    selected = [(Fragment(index, fragments), Exchange()) for index in range(1, fragments)]
    plan = StrategyPlan.of(Strategy(selected=selected), [Location("here", "host")], 0)
    net = model()
    return [[name for name, _ in share.named] for share in divided(net, torch.optim.SGD(net.parameters(), lr=0.1), plan)]


def test_fragments_are_strided_and_each_parameter_is_in_one() -> None:
    both = lambda path: [f"{path}.weight", f"{path}.bias"]  # noqa: E731
    assert parts(2) == [both("0.1") + both("1.1"), both("0.0") + both("1.0") + both("2")]
    assert parts(3) == [both("0.1") + both("2"), both("1.0"), both("0.0") + both("1.1")]


def test_a_model_with_fewer_modules_than_fragments_has_fewer_exchanges() -> None:
    assert len(parts(9)) == 5


@pytest.mark.parametrize(("index", "count"), [(2, 2), (-1, 2), (0, 0)])
def test_a_fragment_that_is_none_is_refused(index: int, count: int) -> None:
    with pytest.raises(CompositionError, match="numbered from 0"):
        Fragment(index, count)
