"""RefreshedLowRank by hand."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.codec import LowRank, RefreshedLowRank
from polyrhythm.core.protocols.requests import AllReduceRequest
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

from .aggregation import CollectiveClient, normal, same_bits

LAYOUT = Layout(("w", "b"), ((8, 6), (5,)))


def test_a_refreshing_round_is_one_reduction_of_all_and_finds_the_leading_span() -> None:
    client = CollectiveClient(RefreshedLowRank(2, period=3), LAYOUT, 2)
    for step in range(4):
        values = [normal(10 * step + rank, LAYOUT.numel) for rank in range(2)]
        aggregated = client.round(values)
        if step % 3 == 0:
            assert same_bits(aggregated[0].total, values[0] + values[1])
            leading = torch.linalg.svd((values[0] + values[1])[:48].view(8, 6)).Vh[:2]
            q = aggregated[0].state["q/w"]
            torch.testing.assert_close(q.T @ q, leading.T @ leading, rtol=1e-4, atol=1e-5)
    assert client.questions == [AllReduceRequest] * (1 + 2 + 2 + 1)


def test_in_between_it_is_low_rank() -> None:
    refreshed, plain = CollectiveClient(RefreshedLowRank(1, period=99), LAYOUT, 2), CollectiveClient(LowRank(1), LAYOUT, 2)
    refreshed.round([normal(rank, LAYOUT.numel) for rank in range(2)])
    plain.states = [{"q/w": state["q/w"]} for state in refreshed.states]
    values = [normal(5 + rank, LAYOUT.numel) for rank in range(2)]
    assert same_bits(refreshed.round(values)[0].total, plain.round(values)[0].total)


def test_it_leaves_a_span_that_the_power_iteration_never_leaves() -> None:
    """The gradient is orthogonal to the projection, and its first row to whatever QR makes of P = 0: the next Q is zero too."""
    value = torch.zeros(LAYOUT.numel)
    value[5:48:6][1:] = 1.0  # the last column of w, but for its first row
    for codec, finds in ((LowRank(1), False), (RefreshedLowRank(1, period=2), True)):
        client = CollectiveClient(codec, LAYOUT, 1)
        client.states = [client.states[0] | {"q/w": torch.eye(6)[:1]}]
        if finds:
            client.states[0]["rounds"] += 1  # one round before it is refreshed
        aggregated = [client.round([value])[0].total for _ in range(3)]
        assert torch.allclose(aggregated[-1], value, atol=1e-6) is finds


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(CompositionError, match="rank must be at least 1"):
        RefreshedLowRank(0, 5)
    with pytest.raises(CompositionError, match="give 1 or more"):
        RefreshedLowRank(1, 0)
