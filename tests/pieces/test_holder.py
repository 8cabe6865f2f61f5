"""Weights and what merging does to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from polyrhythm.merge import Adagrad, Elastic, Mean, Nesterov, OuterOptimizer
from polyrhythm.pieces.holder import Holder
from polyrhythm.pieces.merge import Contribution, Merge
from polyrhythm.tensors import Layout

LAYOUT = Layout(("w",), ((4,),))
ELSEWHERE = torch.device("meta")  # a device of its own, on every machine: what lies elsewhere cannot be added to it


@pytest.mark.parametrize("merge", [Mean(), OuterOptimizer(Nesterov()), OuterOptimizer(Adagrad(0.1))], ids=repr)
def test_what_was_exchanged_comes_to_the_device_of_the_weights(merge: Merge) -> None:
    holder = Holder(torch.zeros(4, device=ELSEWHERE), LAYOUT, merge, 2, None)
    holder.drop_anchor()
    for _ in range(2):
        holder.move([Contribution(torch.ones(4)), Contribution(torch.ones(4))])
    assert holder.weights.device == holder.anchor.device == ELSEWHERE


@pytest.mark.parametrize("merge", [Mean(), Elastic()], ids=repr)
def test_weights_of_others_come_to_the_device_of_the_weights(merge: Merge) -> None:
    holder = Holder(torch.zeros(4, device=ELSEWHERE), LAYOUT, merge, 2, None)
    holder.mix([torch.ones(4), torch.ones(4)])
    holder.adopt(torch.ones(4))
    assert holder.weights.device == ELSEWHERE


@pytest.mark.parametrize("change", [lambda holder, one: holder.move([Contribution(one)]), lambda holder, one: holder.mix([one])])
def test_a_tensor_that_was_received_is_neither_kept_nor_written_to(change: Callable[[Holder, torch.Tensor], None]) -> None:
    holder, received = Holder(torch.zeros(4), LAYOUT, Mean(), 1, None), torch.ones(4)
    change(holder, received)
    holder.adopt(torch.full((4,), 7.0))
    assert torch.equal(received, torch.ones(4))
