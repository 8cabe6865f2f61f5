"""Laws of `clip_norm` at attaching: of a model in parts too it is the norm of the whole model's merged gradient, or it is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline import AroundLost, DelayedPipeline, Pipelined
from polyrhythm.partition.tensor_parallel.columns import Columns, Rows
from polyrhythm.partition.zero import Zero

from .test_runs import ALSO_BY_TENSOR, BY_TENSOR, NOT_SO, Chain, close, samples

NORM, NAMES = 0.05, {"2": Columns(), "4": Rows()}


def train(worker: pr.Worker, norm: float | None = NORM) -> None:
    model = Chain()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy, clip_norm=norm)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for x, y in worker.batches(samples(), batch_size=96 // worker.replicas):
        for _ in range(4):
            optimizer.zero_grad()
            worker.train_step(x, y)
            optimizer.step()
            scheduler.step()
            worker.count(1)


def run_of(mesh: Any, names: Any = None, on: Any = None, pipeline: Any = None, **given: Any) -> pr.Run:
    cut = pr.Cut(NAMES if names is None else names, pipeline=pipeline)
    return pr.run(train, mesh=mesh, cut=cut, on=on or pr.Simulator(), **({"strategy": "allreduce"} | given))


@cache
def whole(norm: float | None) -> pr.Run:
    return pr.run(lambda worker: train(worker, norm), workers=1, on=pr.Simulator())


MESHES: dict[str, dict[str, Any]] = {
    "tp": {"mesh": pr.Mesh(tp=2)},
    "pp": {"mesh": pr.Mesh(pp=3), "names": {}, "pipeline": Pipelined(micro_batches=2)},
    "dp and tp": {"mesh": pr.Mesh(dp=2, tp=2)},
    "pp and tp": {"mesh": pr.Mesh(pp=2, tp=2), "pipeline": Pipelined(micro_batches=2)},
    "dp and pp": {"mesh": pr.Mesh(dp=2, pp=2), "names": {}, "pipeline": Pipelined(micro_batches=3)},
    "Zero 1": {"mesh": pr.Mesh(dp=2), "names": {}, "strategy": {"dp": Zero(1)}},
    "Zero 2 and tp": {"mesh": pr.Mesh(dp=2, tp=2), "strategy": {"dp": Zero(2)}},
    "Zero 3 in sites": {"mesh": pr.Mesh(site=2, dp=2), "names": {}, "strategy": {"site": "allreduce", "dp": Zero(3)}},
    "exchanged in the backward pass": {"mesh": pr.Mesh(dp=2, tp=2), "strategy": "horovod"},
}


@pytest.mark.parametrize("mesh", MESHES)
def test_merged_gradients_are_clipped_by_the_norm_of_the_whole_model(mesh: str) -> None:
    close(run_of(**MESHES[mesh]).weights, whole(NORM).weights)
    assert (whole(NORM).weights["2.weight"] - whole(None).weights["2.weight"]).abs().max() > 0.01, "it clips"


def test_processes_clip_by_the_same_norm() -> None:
    for given in (MESHES["dp and pp"], MESHES["Zero 2 and tp"]):
        assert run_of(on=pr.Processes(), **given).summary.weights_sha256 == run_of(**given).summary.weights_sha256


REFUSED: dict[str, dict[str, Any]] = {
    "clips the merged gradient that all workers step on, and under diloco": {"mesh": pr.Mesh(dp=2, tp=2), "strategy": "diloco"},
    "clips the merged gradient that all workers step on, and under ssp": {"mesh": pr.Mesh(dp=2, tp=2), "strategy": "ssp"},
    "each stage has those of another": {"mesh": pr.Mesh(pp=2), "names": {}, "pipeline": Pipelined(schedule=DelayedPipeline())},
    "would wait for workers that may be lost": {
        "mesh": pr.Mesh(dp=2, pp=2),
        "names": {},
        "pipeline": Pipelined(micro_batches=3, routes=AroundLost()),
        "workers": pr.Crew(2, 4, replace=False),
    },
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_has_no_merged_gradient_to_clip_says_so(reason: str) -> None:
    with pytest.raises(CompositionError, match=reason):
        run_of(**REFUSED[reason])


@pytest.mark.long
@pytest.mark.parametrize("system", sorted(systems.SYSTEMS))
def test_every_system_clips_as_without_parts_or_refuses(system: str) -> None:
    """Along an axis of replicas with the whole model, and along one with halves of it."""
    refused = ""
    try:
        found = run_of(pr.Mesh(dp=2, tp=2), strategy=system)
    except CompositionError as error:
        refused = str(error)
    if refused:
        assert system in NOT_SO or "clip_norm" in refused
    elif system not in (*BY_TENSOR, *ALSO_BY_TENSOR):
        close(found.weights, pr.run(train, workers=2, strategy=system, on=pr.Simulator()).weights)
