"""Rows: those that are not zero, and not a bit is lost."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.codec import Identity, TouchedRows
from polyrhythm.core.tensors import NO_GRADIENT, Layout, without_gradient
from polyrhythm.errors import CompositionError

from .aggregation import CollectiveClient, alone, normal, payload, same_bits

LAYOUT = Layout(("table", "bias", "cube"), ((50, 4), (6,), (8, 2, 3)))
CODEC = TouchedRows()


def sparse(seed: int, share: float) -> torch.Tensor:
    """A vector in whose matrices about that share of rows is not zero; some elements are zeros of either sign."""
    draw = torch.Generator().manual_seed(seed)
    value = normal(seed, LAYOUT.numel)
    value[torch.rand(LAYOUT.numel, generator=draw) < 0.2] = -0.0
    for view in LAYOUT.views(value):
        if view.dim() > 1:
            view[torch.rand(len(view), generator=draw) >= share] = 0.0
    return value


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**20), share=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_every_receiver_has_the_bits_that_were_given(seed: int, share: float) -> None:
    value = sparse(seed, share)
    one = CODEC.encode(value, LAYOUT, {}, alone(LAYOUT))
    assert same_bits(one.sent, value)
    assert same_bits(CODEC.decode(one.packet, LAYOUT), value)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**20), workers=st.integers(1, 4), absent=st.integers(0, 4))
def test_sums_have_the_bits_of_sums_of_all_elements(seed: int, workers: int, absent: int) -> None:
    values = [sparse(seed + rank, 0.2) for rank in range(workers)]
    for value in values[:absent]:
        LAYOUT.named(value)["table"].fill_(NO_GRADIENT)
    totals = [CollectiveClient(codec, LAYOUT, workers).round(values)[0].total for codec in (CODEC, Identity())]
    assert same_bits(*totals)
    assert without_gradient([LAYOUT.named(totals[0])["table"].reshape(-1)]) == [absent >= workers]


@pytest.mark.parametrize("rows", [0, 1, 7, 50])
def test_a_packet_has_an_index_and_the_values_of_each_row(rows: int) -> None:
    value = torch.zeros(LAYOUT.numel)
    LAYOUT.named(value)["table"][:rows] = 1.0
    assert payload(CODEC.encode(value, LAYOUT, {}, alone(LAYOUT)).packet) == 2 * 8 + rows * (4 + 4 * 4) + 4 * 6


def test_a_parameter_without_a_gradient_costs_a_number() -> None:
    value = torch.full((LAYOUT.numel,), NO_GRADIENT)
    assert payload(CODEC.encode(value, LAYOUT, {}, alone(LAYOUT)).packet) == 2 * 8 + 4 * 6


def test_more_rows_than_an_index_can_name_are_refused() -> None:
    with pytest.raises(CompositionError, match="TouchedRows names rows by 31 bits"):
        CODEC.initial(Layout(("table",), ((2**31 + 1, 4),)))
