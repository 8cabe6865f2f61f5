"""Sums in a buffer have the bits of sums of single tensors."""

from __future__ import annotations

import pytest
import torch
from collectives import run_collective

from polyrhythm.core.protocols.algorithm import Algorithm
from polyrhythm.topology import Butterfly, Direct, Ring, Star, Tree
from polyrhythm.topology.collective.fusion_buffer import joined, parted

SIZES = (1, 2, 7, 12, 0, 30, 5)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_what_was_joined_comes_back(workers: int) -> None:
    values = [torch.randn(size) for size in SIZES]
    buffer = joined(values, workers)
    assert buffer.numel() == workers * sum(-(-size // workers) for size in SIZES)
    assert all(torch.equal(a, b) for a, b in zip(parted(buffer, values, workers), values, strict=True))


@pytest.mark.parametrize("algorithm", [Ring(), Direct(), Tree(), Butterfly(), Star()], ids=repr)
@pytest.mark.parametrize("workers", [3, 5, 8])
def test_fusion_changes_no_bit_of_a_sum(algorithm: Algorithm, workers: int) -> None:
    draw = torch.Generator().manual_seed(workers)
    given = [[torch.randn(size, generator=draw) for size in SIZES] for _ in range(workers)]

    async def alone_and_together(context, group):  # type: ignore[no-untyped-def]
        mine = given[group.rank]
        apart = [await algorithm.reduce(context.port, group, value, f"{k}") for k, value in enumerate(mine)]
        buffer = await algorithm.reduce(context.port, group, joined(mine, workers), "together")
        return [torch.cat(apart), torch.cat(parted(buffer, mine, workers))]

    for apart, together in run_collective(workers, alone_and_together)[0]:
        assert torch.equal(apart, together)
