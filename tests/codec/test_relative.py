"""Relative by hand: what is significant depends on the weight and on the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from polyrhythm.codec import ErrorFeedback, Relative
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.tensors import Layout

from .aggregation import alone, normal

LAYOUT = Layout(("p",), ((4,),))
WEIGHTS = torch.tensor([1.0, -10.0, 0.0, 100.0])


def at(clock: int, weights: Tensor = WEIGHTS) -> ExchangeContext:
    return alone().at(clock, lambda: weights)


def test_an_element_is_sent_where_it_is_large_compared_to_its_weight() -> None:
    value = torch.tensor([0.2, -0.9, 0.01, 9.0])
    assert Relative(0.1, floor=0.05).encode(value, LAYOUT, {}, at(1)).sent.tolist() == pytest.approx([0.2, 0.0, 0.01, 0.0])


def test_the_threshold_decays_with_the_square_root_of_the_clock() -> None:
    layout, weights = Layout(("p",), ((1000,),)), normal(1, 1000).abs() + 1
    ramp = torch.linspace(0, 1, 1000) * weights
    counts = [len(Relative(0.8).encode(ramp, layout, {}, at(clock, weights)).packet[0]) for clock in (1, 4, 16, 64)]
    assert [1000 - count for count in counts] == pytest.approx([800, 400, 200, 100], abs=2)


def test_a_weight_near_zero_does_not_make_everything_significant() -> None:
    value = torch.tensor([1e-6, 1e-6, 1e-6, 1e-6])
    assert not Relative(0.01, floor=1e-3).encode(value, LAYOUT, {}, at(1, torch.zeros(4))).sent.any()


def test_what_is_not_significant_accumulates_until_it_is() -> None:
    codec, value = ErrorFeedback(Relative(0.1, floor=0.05)), torch.tensor([0.06, 0.6, 0.0, 0.0])
    first = codec.encode(value, LAYOUT, codec.initial(LAYOUT), at(1))
    assert first.sent.tolist() == [0.0, 0.0, 0.0, 0.0]
    second = codec.encode(value, LAYOUT, first.state, at(1))
    assert second.sent.tolist() == pytest.approx([0.12, 1.2, 0.0, 0.0])


def test_weights_are_fetched_once_and_only_when_somebody_looks() -> None:
    looks: list[int] = []

    def weights() -> Tensor:
        looks.append(1)
        return WEIGHTS

    context = at(1)
    context = replace(context, source=weights)
    parts = context.parts([Layout(("a",), ((3,),)), Layout(("b",), ((1,),))])
    assert not looks
    assert [part.weights.tolist() for part in parts] == [[1.0, -10.0, 0.0], [100.0]]
    assert context.weights is context.weights
    assert len(looks) == 1


def test_a_share_of_the_mean_magnitude_in_its_own_tensor_is_the_least_size() -> None:
    layout = Layout(("a", "b"), ((4,), (2,)))
    weights = torch.tensor([0.0, 0.0, -4.0, 4.0, 0.01, 0.03])
    value = torch.tensor([0.09, 0.11, 0.3, 0.5, 0.0009, 0.004])
    codec = Relative(0.1, floor=1e-9, share=0.5)
    assert codec.encode(value, layout, {}, at(1, weights)).packet[0].tolist() == [1, 3, 5]


def test_without_decay_the_threshold_stays() -> None:
    value = torch.tensor([0.2, -0.9, 0.01, 9.0])
    first, late = (Relative(0.1, floor=0.05, decay=0.0).encode(value, LAYOUT, {}, at(clock)).sent for clock in (1, 10_000))
    assert torch.equal(first, late)
    assert not torch.equal(late, Relative(0.1, floor=0.05).encode(value, LAYOUT, {}, at(10_000)).sent)
