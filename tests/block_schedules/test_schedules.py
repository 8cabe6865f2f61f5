"""Schedules of blocks: the laws of every member, what STRADS prefers and refuses, and fair shares."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.workloads.block_schedules import MEMBERS, BlockSchedule, RandomBlocks, Strads, balanced

COUNT = 40
NONE = torch.empty(0, dtype=torch.int64)


def in_pairs(blocks: Tensor) -> Tensor:
    """Blocks 2k and 2k + 1 depend on each other by 0.9, all others by 0.01."""
    together = (blocks // 2).unsqueeze(0) == (blocks // 2).unsqueeze(1)
    return torch.where(together, 0.9, 0.01)


def chosen(schedule: BlockSchedule, changes: Tensor, seed: int, flying: Tensor = NONE) -> list[int]:
    return schedule.blocks(changes, flying, in_pairs, np.random.default_rng(seed)).tolist()


@pytest.mark.parametrize("schedule", MEMBERS, ids=repr)
def test_blocks_are_known_ones_none_twice_and_the_same_for_the_same_seed(schedule: BlockSchedule) -> None:
    for seed in range(20):
        changes = torch.rand(COUNT, generator=torch.Generator().manual_seed(seed))
        blocks = chosen(schedule, changes, seed)
        assert blocks == sorted(set(blocks)) == chosen(schedule, changes, seed)
        assert set(blocks) <= set(range(COUNT))
        assert 1 <= len(blocks) <= 4


def test_no_two_blocks_that_depend_on_each_other_are_updated_together() -> None:
    for seed in range(50):
        blocks = chosen(Strads(8, theta=0.5), torch.ones(COUNT), seed)
        assert len({block // 2 for block in blocks}) == len(blocks) == 8
        flying = torch.arange(0, 20, 2)
        assert min(chosen(Strads(8, theta=0.5), torch.ones(COUNT), seed, flying)) >= 20, "what is in flight is not touched"
    assert len(chosen(Strads(8, theta=0.005), torch.ones(COUNT), 0)) == 1


def test_blocks_are_drawn_in_proportion_to_their_changes_and_new_ones_first() -> None:
    changes = torch.full((COUNT,), 0.1)
    changes[7] = 3.9 + 0.1  # 40 times as much: half of all
    found = [chosen(Strads(1, epsilon=1e-9, candidates=1), changes, seed)[0] for seed in range(400)]
    expected = 4.0 / (4.0 + 39 * 0.1)
    assert abs(found.count(7) / 400 - expected) < 4 * math.sqrt(expected * (1 - expected) / 400)
    changes[20] = torch.inf
    assert {chosen(Strads(1, candidates=1), changes, seed)[0] for seed in range(20)} == {20}
    never = torch.zeros(COUNT)
    assert len({chosen(Strads(1, candidates=1), never, seed)[0] for seed in range(200)}) > COUNT / 2, "epsilon leaves nobody out"


def test_schedules_that_update_nothing_are_refused() -> None:
    for wrong in (lambda: RandomBlocks(0), lambda: Strads(0), lambda: Strads(4, theta=0.0), lambda: Strads(4, candidates=0)):
        with pytest.raises(CompositionError, match="updates nothing"):
            wrong()


def test_shares_hold_every_block_once_and_cost_about_the_same() -> None:
    draw = torch.Generator().manual_seed(0)
    for workers in (1, 3, 5):
        costs = torch.rand(COUNT, generator=draw)
        shares = balanced(torch.arange(COUNT), costs, workers)
        assert sorted(torch.cat(shares).tolist()) == list(range(COUNT))
        busiest = max(float(costs[share].sum()) for share in shares)
        assert busiest <= 4 / 3 * max(float(costs.sum()) / workers, float(costs.max()))
    assert [len(share) for share in balanced(torch.arange(2), torch.ones(2), 4)] == [1, 1, 0, 0]
    with pytest.raises(CompositionError, match="3 costs were given for 2 blocks"):
        balanced(torch.arange(2), torch.ones(3), 2)
