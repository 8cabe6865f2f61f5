"""The reduce-scatter, and the algorithms that are made of it."""

from __future__ import annotations

import pytest
import torch
from collectives import run_collective, values

from polyrhythm.topology import Direct, Ring
from polyrhythm.topology.collective.algorithms.reduce_scatter import scatter_directly


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("numel", [0, 3, 1000])
def test_each_gets_the_sum_of_its_part(workers: int, numel: int) -> None:
    given = values(workers, numel)
    responses, _ = run_collective(workers, lambda context, group: scatter_directly(context.port, group, given[group.rank], "t"))
    parts = torch.tensor_split(torch.stack(given).double().sum(0), workers)
    for (response,), part in zip(responses, parts, strict=True):
        torch.testing.assert_close(response.double(), part, rtol=1e-5, atol=1e-5)


def test_four_workers_send_three_quarters_of_a_payload_each() -> None:
    workers, numel = 4, 250_000
    given = values(workers, numel)
    _, ending = run_collective(workers, lambda context, group: scatter_directly(context.port, group, given[group.rank], "t"))
    assert 0.75 <= ending.bytes_sent / workers / (numel * 4) <= 0.76
    assert ending.messages_sent == workers * (workers - 1)


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_directly_and_around_a_ring_the_sum_has_the_same_bits(workers: int) -> None:
    given = values(workers, 1001)
    direct, _ = run_collective(workers, lambda context, group: Direct().reduce(context.port, group, given[group.rank], "t"))
    ring, _ = run_collective(workers, lambda context, group: Ring().reduce(context.port, group, given[group.rank], "t"))
    assert torch.equal(direct[0][0], ring[0][0])


def test_the_shape_of_what_was_given_comes_back() -> None:
    given = [torch.ones(2, 3).t() for _ in range(3)]
    responses, _ = run_collective(3, lambda context, group: Direct().reduce(context.port, group, given[group.rank], "t"))
    assert torch.equal(responses[0][0], torch.full((3, 2), 3.0))
