"""The gate lets in what one's own step comes nearer to."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from endpoints import context_of

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.merge import ParzenGate
from polyrhythm.topology import Server

BEFORE, MINE = torch.tensor([1.0, 1.0]), torch.tensor([0.0, 1.0])
STEPPED = replace(context_of(3), update=lambda: BEFORE - MINE)
AHEAD, BEHIND, ASIDE = torch.tensor([-3.0, 1.0]), torch.tensor([3.0, 1.0]), torch.tensor([0.0, 5.0])


def test_what_lies_ahead_is_mixed_with_the_weights_before_the_step_and_the_step_counts_in_full() -> None:
    assert torch.equal(ParzenGate().mix(MINE, [AHEAD], STEPPED), (BEFORE + AHEAD) / 2 - (BEFORE - MINE))
    assert torch.equal(ParzenGate(0.5).mix(MINE, [AHEAD], STEPPED), MINE - 0.5 * (BEFORE - (BEFORE + AHEAD) / 2))


def test_what_lies_behind_is_refused_and_does_not_count_in_the_mean() -> None:
    assert torch.equal(ParzenGate().mix(MINE, [BEHIND], STEPPED), MINE)
    assert torch.equal(ParzenGate().mix(MINE, [AHEAD, BEHIND], STEPPED), ParzenGate().mix(MINE, [AHEAD], STEPPED))
    expected = (BEFORE + AHEAD + ASIDE) / 3 - (BEFORE - MINE)
    torch.testing.assert_close(ParzenGate().mix(MINE, [AHEAD, BEHIND, ASIDE], STEPPED), expected)


def test_what_the_step_comes_no_nearer_to_is_refused() -> None:
    assert torch.equal(ParzenGate().mix(MINE, [torch.tensor([0.5, 3.0])], STEPPED), MINE)


def test_without_a_step_nothing_is_let_in() -> None:
    assert torch.equal(ParzenGate().mix(MINE, [AHEAD, BEHIND], replace(context_of(3), update=lambda: torch.zeros(2))), MINE)


@pytest.mark.parametrize("rate", [0.0, -1.0, 1.5, float("nan")])
def test_a_rate_that_does_not_pull_is_refused(rate: float) -> None:
    with pytest.raises(CompositionError, match="give a number above 0, at most 1"):
        ParzenGate(rate)


def test_a_server_takes_no_steps_to_compare_with() -> None:
    with pytest.raises(CompositionError, match=r"Server.* and ParzenGate.* do not fit"):
        Strategy(consistency=LocalSteps(1, Asynchronous()), topology=Server(), merge=ParzenGate())
