"""Weights and what merging does to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from endpoints import context_of

from polyrhythm.core.protocols.merge import Contribution, Merge
from polyrhythm.core.tensors import Layout
from polyrhythm.core.weights.state import ModelState
from polyrhythm.merge import Adagrad, Elastic, Mean, Nesterov, OuterOptimizer

LAYOUT = Layout(("w",), ((4,),))
ELSEWHERE = torch.device("meta")  # a device of its own, on every machine: what lies elsewhere cannot be added to it


@pytest.mark.parametrize("merge", [Mean(), OuterOptimizer(Nesterov()), OuterOptimizer(Adagrad(0.1))], ids=repr)
def test_what_was_exchanged_comes_to_the_device_of_the_weights(merge: Merge) -> None:
    model_state = ModelState(torch.zeros(4, device=ELSEWHERE), LAYOUT, merge, context_of(2), None)
    model_state.set_anchor()
    for _ in range(2):
        model_state.move([Contribution(torch.ones(4)), Contribution(torch.ones(4))])
    assert model_state.weights.device == model_state.anchor.device == ELSEWHERE


@pytest.mark.parametrize("merge", [Mean(), Elastic()], ids=repr)
def test_weights_of_others_come_to_the_device_of_the_weights(merge: Merge) -> None:
    model_state = ModelState(torch.zeros(4, device=ELSEWHERE), LAYOUT, merge, context_of(2), None)
    model_state.mix([torch.ones(4), torch.ones(4)])
    model_state.adopt(torch.ones(4))
    assert model_state.weights.device == ELSEWHERE


@pytest.mark.parametrize(
    "change", [lambda model_state, one: model_state.move([Contribution(one)]), lambda model_state, one: model_state.mix([one])]
)
def test_a_tensor_that_was_received_is_neither_kept_nor_written_to(change: Callable[[ModelState, torch.Tensor], None]) -> None:
    model_state, received = ModelState(torch.zeros(4), LAYOUT, Mean(), context_of(1), None), torch.ones(4)
    change(model_state, received)
    model_state.adopt(torch.full((4,), 7.0))
    assert torch.equal(received, torch.ones(4))
