"""`pr.explain` of unequal replicas: what each of them holds and sends, and what a run of them does."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import polyrhythm as pr
from polyrhythm.partition import BalancedStages, Pipelined

from .layouts import BATCH, Net
from .unequal_runs import MESHES


def explained(mesh: pr.Mesh, cut: pr.Cut, tied: bool = False, strategy: str = "allreduce") -> pr.tools.layouts.LayoutExplanation:
    inputs = torch.empty(BATCH // dict(mesh.axes)["dp"], 5, dtype=torch.float64)
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.5)
    return pr.explain(mesh, cut, lambda: Net(6, 7, tied), inputs, lambda found: found.square().mean(), sgd, strategy)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", ["1+2", "2+3"])
def test_each_replica_holds_the_whole_model(name: str, tied: bool) -> None:
    found = explained(MESHES[name].mesh, MESHES[name].cut(), tied)
    assert found.refused is None
    assert len(found.ranks) == MESHES[name].mesh.workers
    whole = {id(each): each for each in Net(6, 7, tied).parameters()}.values()
    nbytes = sum(each.numel() * each.element_size() for each in whole)
    for replica in range(2):
        own = [rank for rank in found.ranks if rank.coordinates["dp"] == replica]
        copies = sum(each.piece.numel * 8 for rank in own for each in rank.placements.values() if each.copy_of)
        assert sum(rank.memory["parameters"] for rank in own) == nbytes + copies
    assert "each replica" in str(found)


@pytest.mark.parametrize("tied", [False, True])
def test_exchanges_send_the_gradients_of_each_part_once(tied: bool) -> None:
    found = explained(MESHES["2+3"].mesh, MESHES["2+3"].cut(), tied)
    frozen = [name for name, each in Net(6, 7, tied).named_parameters() if not each.requires_grad]
    for rank in found.ranks:
        trained = [each for name, each in rank.placements.items() if name not in frozen and not each.copy_of]
        nbytes = 4 * sum(each.piece.numel for each in trained)  # as float32, whatever the model's type
        assert nbytes < rank.exchanged < nbytes + 1000  # two workers send each half twice, with a header


def test_what_cannot_be_is_refused() -> None:
    found = explained(pr.Mesh(dp=2, pp=(1, 2)), pr.Cut(pipeline=Pipelined()))
    assert "does not say how many steps" in str(found.refused)
    late = explained(pr.Mesh(dp=2, pp=(1, 2)), pr.Cut(pipeline=Pipelined(division=BalancedStages((1.0,) * 6))), strategy="ssp")
    assert late.refused is not None
    assert "take allreduce" in str(late.refused)
