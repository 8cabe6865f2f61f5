"""Workers have points of classes of their own."""

from __future__ import annotations

from itertools import pairwise

import torch

from polyrhythm.core.protocols.sharded import ShardRequest
from polyrhythm_reproductions.jobs.own_classes import OwnClasses, SortedShares
from polyrhythm_reproductions.jobs.recipes import SgdRecipe
from polyrhythm_reproductions.jobs.teacher import points
from polyrhythm_reproductions.trial import ArmTrial

SAMPLES, WORKERS = 258, 4


def classes() -> list[torch.Tensor]:
    shares = SortedShares(points(SAMPLES)[0])
    return [shares.batch(rows)[1] for rank in range(WORKERS) for rows in shares.shard(ShardRequest(rank, WORKERS))]


def test_every_point_is_in_one_share() -> None:
    assert [len(share) for share in classes()] == [65, 65, 64, 64]
    assert torch.equal(torch.cat(classes()), points(SAMPLES)[0].tensors[1].sort().values)


def test_shares_have_no_class_in_common_but_at_their_ends() -> None:
    shares = classes()
    assert all(a.max() <= b.min() for a, b in pairwise(shares))


def test_workers_together_learn_classes_that_none_of_them_has_alone() -> None:
    job = OwnClasses(SgdRecipe(1.0), epochs=20, batch_size=64, samples=256)
    result = ArmTrial(0).train("apart", job, "allreduce", workers=WORKERS)
    assert result.arm.steps == 20
    assert result.metric("accuracy") > 0.4
