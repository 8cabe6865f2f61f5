"""Significant by hand."""

from __future__ import annotations

import torch

from polyrhythm.codec import ErrorFeedback, Significant
from polyrhythm.core.tensors import Layout

from .aggregation import alone, payload

LAYOUT = Layout(("p",), ((5,),))


def test_large_elements_are_sent_in_full_and_small_ones_gather() -> None:
    codec = ErrorFeedback(Significant(1.0))
    value = torch.tensor([0.5, -2.5, 1.0, 0.0, 0.75])
    first = codec.encode(value, LAYOUT, codec.initial(LAYOUT), alone())
    assert first.sent.tolist() == [0.0, -2.5, 1.0, 0.0, 0.0]
    assert codec.residual(first.state, LAYOUT).tolist() == [0.5, 0.0, 0.0, 0.0, 0.75]
    second = codec.encode(value, LAYOUT, first.state, alone())
    assert second.sent.tolist() == [1.0, -2.5, 1.0, 0.0, 1.5]


def test_a_packet_costs_eight_bytes_an_element_and_may_be_empty() -> None:
    value = torch.tensor([0.5, -2.5, 1.0, 0.0, 0.75])
    assert payload(Significant(1.0).encode(value, LAYOUT, {}, alone()).packet) == 2 * 8
    assert payload(Significant(3.0).encode(value, LAYOUT, {}, alone()).packet) == 0
