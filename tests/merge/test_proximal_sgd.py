"""The proximal step against its definition, on the aggregate, and as plain SGD without a penalty."""

from __future__ import annotations

import pytest
import torch
from endpoints import context_of
from torch.nn.functional import softshrink

from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.errors import CompositionError
from polyrhythm.merge import Elastic, Mean, ProximalSGD

LAYOUT = Layout(("w",), ((5,),))
START = torch.tensor([0.0, 0.02, -0.5, 1.0, -0.001])
A, B = torch.tensor([0.1, 0.3, -2.0, 1.0, 0.0]), torch.tensor([-0.05, 0.1, 1.0, 1.0, 0.0])


def after(merge: ProximalSGD, *contributions: Contribution) -> torch.Tensor:
    state = ModelState(START.clone(), LAYOUT, merge, context_of(2), None)
    state.move(contributions)
    return state.weights


def test_it_is_the_soft_threshold_of_the_step_on_the_mean() -> None:
    found = after(ProximalSGD(0.3), Contribution(A, rates=(0.1,)), Contribution(B, rates=(0.1,)))
    torch.testing.assert_close(found, softshrink(START - 0.1 * (A + B) / 2, 0.03))
    assert found.tolist()[::4] == [0.0, 0.0], "exactly zero"
    one_by_one = after(ProximalSGD(0.3), Contribution(A, rates=(0.1,)))
    torch.testing.assert_close(one_by_one, softshrink(START - 0.05 * A, 0.015))


def test_without_a_penalty_it_is_sgd_bit_for_bit() -> None:
    plain = START - 0.1 * ((A + B) / 2)
    assert torch.equal(after(ProximalSGD(), Contribution(A, rates=(0.1,)), Contribution(B, rates=(0.1,))), plain)


def test_a_late_group_has_a_smaller_rate() -> None:
    found = after(ProximalSGD(0.3, per_delay=0.5), Contribution(A, staleness=3, rates=(0.1,)), Contribution(B, staleness=1, rates=(0.1,)))
    torch.testing.assert_close(found, softshrink(START - 0.05 * (A + B) / 2, 0.015))


@pytest.mark.parametrize("make", [lambda: ProximalSGD(-1.0), lambda: ProximalSGD(0.1, float("nan"))])
def test_settings_that_cannot_step_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match="at least 0"):
        make()


@pytest.mark.parametrize("inner", [Elastic(), ProximalSGD(0.1)], ids=repr)
def test_a_merge_of_weights_or_with_an_optimizer_is_no_sum(inner) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match="such as Mean"):
        ProximalSGD(0.1, inner=inner)
    assert ProximalSGD(0.1).inner == Mean()
