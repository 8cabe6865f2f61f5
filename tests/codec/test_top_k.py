"""TopK by hand: which elements, in which order, in how many bytes."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import TopK
from polyrhythm.core.tensors import Layout

from .aggregation import CollectiveClient, alone, normal, payload


def spoken(ratio: float, values: list[float]) -> tuple[list[int], list[float]]:
    """Indices and values of a packet."""
    layout = Layout(("p",), ((len(values),),))
    indices, sent = TopK(ratio).encode(torch.tensor(values), layout, {}, alone()).packet
    assert indices.dtype == torch.int32
    return indices.tolist(), sent.tolist()


def test_the_largest_magnitudes_are_sent_in_the_order_of_their_indices() -> None:
    assert spoken(0.4, [0.5, -3.0, 1.0, 2.0, 0.0]) == ([1, 3], [-3.0, 2.0])


def test_among_equals_the_first_are_taken() -> None:
    assert spoken(0.6, [1.0, -1.0, 2.0, 1.0, 1.0]) == ([0, 1, 2], [1.0, -1.0, 2.0])
    assert spoken(0.5, [0.0, 0.0, 0.0, 0.0])[0] == [0, 1]


def test_what_is_not_a_number_counts_as_largest() -> None:
    nan = float("nan")
    assert spoken(0.5, [1.0, nan, 3.0, 2.0])[0] == [1, 2]
    assert spoken(0.25, [1.0, nan, 3.0, nan])[0] == [1]
    assert spoken(0.5, [nan, nan, 3.0, nan])[0] == [0, 1]


def test_at_least_one_element_is_sent_and_a_share_is_rounded_up() -> None:
    assert len(spoken(1e-9, [1.0, 2.0])[0]) == 1
    assert len(spoken(0.5, [1.0] * 5)[0]) == 3
    assert len(spoken(0.07, [1.0] * 100)[0]) == 7  # 0.07 * 100 is 7.000000000000001


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.float64, 8)])
def test_a_packet_has_four_bytes_of_index_and_a_value_for_each_element(dtype: torch.dtype, size: int) -> None:
    layout = Layout(("p",), ((1000,),))
    assert payload(TopK(0.03).encode(normal(0, 1000, dtype), layout, {}, alone()).packet) == 30 * (4 + size)


def test_the_sum_of_sparse_packets_is_the_sum_of_their_dense_meanings() -> None:
    layout = Layout(("p",), ((4,),))
    values = [torch.tensor([1.0, 5.0, 0.0, 0.0]), torch.tensor([0.0, 2.0, -1.0, 0.0])]
    aggregated = CollectiveClient(TopK(0.5), layout, 2).round(values)
    assert aggregated[0].total.tolist() == [1.0, 7.0, -1.0, 0.0]
