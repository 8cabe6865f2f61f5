"""LowRank against what is known of the power iteration."""

from __future__ import annotations

import torch

from polyrhythm.codec import ErrorFeedback, LowRank
from polyrhythm.core.protocols.requests import AllReduceRequest
from polyrhythm.core.tensors import Layout

from .aggregation import LAYOUT, CollectiveClient, normal

LAYOUT_M = Layout(("w", "b"), ((20, 30), (20,)))


def matrix(seed: int, rank: int) -> torch.Tensor:
    """A 20 x 30 matrix of the given rank, and a vector of 20, end to end."""
    left, right = normal(seed, 20 * rank).view(20, rank), normal(seed + 1, rank * 30).view(rank, 30)
    return torch.cat([(left @ right).view(-1), normal(seed + 2, 20)])


def test_a_matrix_of_its_rank_is_sent_exactly_and_a_vector_as_it_is() -> None:
    value = matrix(0, 2)
    aggregated = CollectiveClient(LowRank(2), LAYOUT_M, 1).round([value])
    torch.testing.assert_close(aggregated[0].total, value, rtol=1e-4, atol=1e-4)
    assert torch.equal(aggregated[0].total[600:], value[600:])


def test_a_sum_of_its_rank_is_exact_although_no_part_of_it_is() -> None:
    noise, target = matrix(5, 20), matrix(0, 1)
    aggregated = CollectiveClient(LowRank(1), LAYOUT_M, 2).round([target + noise, target - noise])
    torch.testing.assert_close(aggregated[0].total, 2 * target, rtol=1e-3, atol=1e-3)


def test_a_warm_start_comes_nearer_to_the_best_approximation() -> None:
    value = matrix(0, 20)
    M = value[:600].view(20, 30)
    U, S, V = torch.linalg.svd(M, full_matrices=False)
    best = (M - U[:, :2] * S[:2] @ V[:2]).norm()
    client = CollectiveClient(LowRank(2), LAYOUT_M, 1)
    errors = [(client.round([value])[0].total[:600].view(20, 30) - M).norm() for _ in range(30)]
    assert errors[0] > 1.03 * best
    assert errors[1] < errors[0]
    assert errors[-1] < 1.01 * best


def test_all_matrices_share_two_reductions_of_their_factors() -> None:
    layout = Layout(("a", "b", "conv", "bias"), ((8, 9), (7, 10), (6, 2, 5), (11,)))
    client = CollectiveClient(LowRank(2), layout, 3)
    client.round([normal(rank, layout.numel) for rank in range(3)])
    assert client.questions == [AllReduceRequest, AllReduceRequest]
    assert sum(value.numel() for value in client.states[0].values()) == 2 * (9 + 10 + 10)


def test_a_matrix_that_factors_would_not_make_smaller_goes_as_it_is_in_one_reduction() -> None:
    client = CollectiveClient(LowRank(10), LAYOUT, 2)
    values = [normal(rank, LAYOUT.numel) for rank in range(2)]
    assert torch.equal(client.round(values)[0].total, values[0] + values[1])
    assert client.questions == [AllReduceRequest]


def test_a_zero_gradient_does_not_end_the_iteration() -> None:
    client, value = CollectiveClient(LowRank(2), LAYOUT_M, 1), matrix(0, 2)
    assert not client.round([torch.zeros_like(value)])[0].total.any()
    client.round([value])
    torch.testing.assert_close(client.round([value])[0].total, value, rtol=1e-4, atol=1e-4)


def test_all_workers_begin_with_the_same_factor_and_keep_the_same() -> None:
    client = CollectiveClient(ErrorFeedback(LowRank(1)), LAYOUT_M, 3)
    for step in range(3):
        assert all(torch.equal(state["q/w"], client.states[0]["q/w"]) for state in client.states)
        client.round([normal(10 * step + rank, 620) for rank in range(3)])
