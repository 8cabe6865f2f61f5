"""OneBit by hand: columns, means, bits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.codec import ErrorFeedback, OneBit, Striped
from polyrhythm.core.tensors import Layout

from .aggregation import CollectiveClient, alone, normal, payload, total


def test_each_row_has_the_means_of_its_two_classes() -> None:
    layout = Layout(("w",), ((2, 4),))
    value = torch.tensor([1.0, -2.0, 3.0, -4.0, 0.0, 10.0, 20.0, -1.0])
    encoded = OneBit().encode(value, layout, {}, alone())
    bits, means = encoded.packet
    assert bits.tolist() == [0b10101110]
    assert means.tolist() == [-3.0, -1.0, 2.0, 10.0]
    assert encoded.sent.tolist() == [2.0, -3.0, 2.0, -3.0, 10.0, 10.0, 10.0, -1.0]


def test_a_column_is_a_row_over_all_other_dimensions_and_a_vector_is_one_column() -> None:
    layout = Layout(("conv", "bias", "scale"), ((2, 1, 2), (3,), ()))
    value = torch.tensor([1.0, 3.0, -1.0, 5.0, 2.0, 4.0, -6.0, 7.0])
    assert OneBit().encode(value, layout, {}, alone()).sent.tolist() == [2.0, 2.0, -1.0, 5.0, 3.0, 3.0, -6.0, 7.0]


def test_a_class_without_elements_has_mean_zero() -> None:
    encoded = OneBit().encode(torch.tensor([-1.0, -3.0]), Layout(("w",), ((1, 2),)), {}, alone())
    assert encoded.packet[1].tolist() == [-2.0, 0.0]
    assert encoded.sent.tolist() == [-2.0, -2.0]


@pytest.mark.parametrize("length", [64, 512, 1024])
def test_the_wire_ratio_is_32_m_over_m_plus_64(length: int) -> None:
    layout = Layout(("w",), ((40, length),))
    sent = payload(OneBit().encode(normal(0, layout.numel), layout, {}, alone()).packet)
    assert 4 * layout.numel / sent == 32 * length / (length + 64)


def test_the_last_byte_is_filled_up() -> None:
    layout = Layout(("w",), ((3, 5),))
    assert payload(OneBit().encode(normal(0, 15), layout, {}, alone()).packet) == 2 + 3 * 8


@settings(max_examples=30, deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 5), max_size=3).map(tuple), min_size=1, max_size=5),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_one_pass_over_a_layout_equals_a_loop_over_its_columns(shapes: list[tuple[int, ...]], dtype: torch.dtype) -> None:
    layout = Layout(tuple(f"p{k}" for k in range(len(shapes))), tuple(shapes))
    value = normal(len(shapes), layout.numel, dtype)
    expected = []
    for view in layout.views(value):
        rows = view.reshape(view.shape[0], -1) if view.dim() > 1 and view.numel() else view.reshape(1, -1)
        for row in rows:
            means = [row[mask].mean() if mask.any() else row.new_zeros(()) for mask in (row < 0, row >= 0)]
            expected.append(torch.where(row >= 0, means[1], means[0]))
    sent = OneBit().encode(value, layout, {}, alone()).sent
    torch.testing.assert_close(sent, torch.cat(expected) if expected else sent)


def test_a_cut_between_rows_changes_nothing_that_is_sent() -> None:
    layout = Layout(("w", "v"), ((6, 7), (5, 3)))
    value = normal(0, layout.numel)
    whole = OneBit().encode(value, layout, {}, alone()).sent
    parts = layout.split(4)
    pieces = [OneBit().encode(piece, part, {}, alone()).sent for piece, part in zip(layout.cut(value, parts), parts, strict=True)]
    assert torch.equal(whole, torch.cat(pieces))


def test_with_both_residuals_the_sum_of_what_was_sent_telescopes() -> None:
    layout = Layout(("w",), ((6, 8),))
    both, bare = CollectiveClient(Striped(ErrorFeedback(OneBit())), layout, 4), CollectiveClient(Striped(OneBit()), layout, 4)
    values = [[normal(10 * step + rank, layout.numel) for rank in range(4)] for step in range(50)]
    produced = total([total(row) for row in values])
    error = (total([both.round(row)[0].total for row in values]) - produced).norm() / 50
    lost = (total([bare.round(row)[0].total for row in values]) - produced).norm() / 50
    assert error < lost / 3
