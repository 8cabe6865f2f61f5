"""Filters of a parameter server: what they keep is sent, what they drop is counted, and nothing sleeps for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from polyrhythm.codec import KKT, ErrorFeedback, Identity, KeyList, RandomSkip
from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.tensors import NO_GRADIENT, Layout
from polyrhythm.errors import CompositionError

LAYOUT = Layout(("w",), ((6,),))
CONTEXT = ExchangeContext(Group.of_workers(2, 0), rng.stream(0, "test"), 1)


def at(clock: int, weights: Tensor) -> ExchangeContext:
    return replace(CONTEXT, clock=clock, source=lambda: weights)


def test_a_list_of_keys_grows_with_what_was_ever_there_and_zeros_take_a_bit() -> None:
    codec = KeyList()
    first = codec.encode(torch.tensor([0.0, 2, 0, 0, 3, 0]), LAYOUT, codec.initial(LAYOUT), CONTEXT)
    assert [each.tolist() for each in first.packet] == [[1, 4], [0b11000000], [2, 3]]
    second = codec.encode(torch.tensor([7.0, 0, 0, 0, 5, 0]), LAYOUT, first.state, CONTEXT)
    assert [each.tolist() for each in second.packet] == [[0, 1, 4], [0b10100000], [7, 5]]
    third = codec.encode(torch.tensor([7.0, 0, 0, 0, 0, 0]), LAYOUT, second.state, CONTEXT)
    assert third.packet[0] is second.packet[0], "the list stays as it is, and may be sent as a hash"
    assert torch.equal(codec.decode(third.packet, LAYOUT), torch.tensor([7.0, 0, 0, 0, 0, 0]))


def test_a_parameter_without_a_gradient_stays_without_one() -> None:
    value = torch.tensor([NO_GRADIENT, NO_GRADIENT, 0.0, 1.0, 0.0, NO_GRADIENT])
    packet = KeyList().encode(value, LAYOUT, KeyList().initial(LAYOUT), CONTEXT).packet
    assert KeyList().decode(packet, LAYOUT).signbit().tolist() == [True, True, False, False, False, True]


def test_what_would_leave_a_weight_at_zero_is_dropped_and_counted_and_now_and_then_all_is_sent() -> None:
    codec = KKT(Identity(), penalty=1.0, delta=0.25, retest=3)
    weights, gradient = torch.tensor([0.0, 0, 0, 2, 0, 0]), torch.tensor([0.5, -0.75, 0.8, 0.1, 0, -3])
    state = codec.initial(LAYOUT)
    for clock in (1, 2, 3):
        encoded = codec.encode(gradient, LAYOUT, state, at(clock, weights))
        state = encoded.state
        expected = gradient if clock == 3 else torch.tensor([0.0, 0, 0.8, 0.1, 0, -3])
        assert torch.equal(encoded.sent, expected)
    assert state["dropped"].tolist() == [4, 2.5]


def test_a_dormant_weight_whose_gradient_grows_is_sent_again() -> None:
    codec, state = KKT(KeyList(), penalty=1.0, retest=1000), KeyList().initial(LAYOUT)
    state = codec.initial(LAYOUT)
    for clock, size in enumerate((0.1, 0.5, 0.89, 0.91, 2.0), 1):
        encoded = codec.encode(torch.full((6,), size), LAYOUT, state, at(clock, torch.zeros(6)))
        state = encoded.state
        assert encoded.sent.any() == (size > 0.9)


def test_without_a_penalty_nothing_is_dropped() -> None:
    codec, value = KKT(Identity(), penalty=0.0), torch.tensor([NO_GRADIENT, 0.0, 1.0, -1.0, 0.0, NO_GRADIENT])
    encoded = codec.encode(value, LAYOUT, codec.initial(LAYOUT), at(1, torch.zeros(6)))
    assert encoded.sent is value
    assert not encoded.state["dropped"].any()


def test_what_is_skipped_at_random_is_lost_and_counted_or_kept_for_later() -> None:
    layout, ones = Layout(("w",), ((4000,),)), torch.ones(4000)
    skipping = RandomSkip(Identity(), 0.25)
    encoded = skipping.encode(ones, layout, skipping.initial(layout), CONTEXT)
    assert encoded.state["dropped"].tolist() == [4000 - float(encoded.sent.sum())] * 2
    assert 0.7 < encoded.sent.mean() < 0.8
    keeping = ErrorFeedback(skipping)
    state, sent = keeping.initial(layout), torch.zeros(4000)
    for _ in range(5):
        encoded = keeping.encode(ones, layout, state, CONTEXT)
        state, sent = encoded.state, sent + encoded.sent
    assert torch.equal(sent + keeping.residual(state, layout), 5 * ones)


@pytest.mark.parametrize(
    "make",
    [
        *(lambda: KKT(Identity(), -1.0), lambda: KKT(Identity(), float("nan")), lambda: KKT(Identity(), 1.0, delta=2.0)),
        *(lambda: KKT(Identity(), 1.0, retest=0), lambda: RandomSkip(Identity(), 1.0), lambda: RandomSkip(Identity(), -0.1)),
    ],
)
def test_filters_that_cannot_be_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompositionError, match="give a p"):
        make()
