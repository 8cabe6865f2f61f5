"""Laws of our exchanges on one axis of a program of torch.distributed: models that FSDP2 shards within a site, between sites any system."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.errors import CompositionError

from .programs import BATCH, WIDTH, group, perceptron

SITES, STEPS = 2, 6
EXACT = ("allreduce", "local-sgd", "diloco", "slowmo", "post-local-sgd", "signsgd")
"""Those whose values do not depend on what is summed in which order, or on random numbers by parameter."""
OTHERS = ("qsgd", "dgc", "powersgd", "adpsgd", "noloco", "gossipgrad", "streaming-diloco", "horovod")


def samples(site: int, step: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(100 * site + step))
    return x, x[:, :4].argmax(1)


def strategy(name: str) -> pr.Strategy:
    return systems.find(name, **({"period": 2} if name in ("local-sgd", "diloco", "slowmo", "post-local-sgd") else {}))


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, site: int, part: int, parts: int) -> None:
    for step in range(STEPS):
        x, y = (each.chunk(parts)[part] for each in samples(site, step))
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def sharded_in_sites(found: dict[int, Tensor], name: str) -> None:
    with group() as (rank, ranks):
        shards = ranks // SITES
        mesh = init_device_mesh("cpu", (SITES, shards), mesh_dim_names=("site", "shard"))
        model = perceptron()
        for layer in (*(each for each in model if isinstance(each, nn.Linear)), model):
            fully_shard(layer, mesh=mesh["shard"])
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        worker = pr.join(strategy(name), group=mesh["site"].get_group())
        model, optimizer = worker.attach(model, optimizer)
        worker.count(1)
        steps(model, optimizer, rank // shards, rank % shards, shards)
        worker.leave()
        found[rank] = torch.cat([parameter.full_tensor().detach().view(-1) for parameter in model.parameters()])


def whole_in_sites(worker: pr.Worker, name: str, found: dict[int, Tensor]) -> None:
    model = perceptron()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, optimizer = worker.attach(model, optimizer)
    worker.count(1)
    steps(model, optimizer, worker.rank, 0, 1)
    worker.finish()
    found[worker.rank] = torch.cat([parameter.detach().view(-1) for parameter in model.parameters()])


@pytest.mark.parametrize(("name", "shards"), [*((name, 2) for name in EXACT), ("allreduce", 6), ("diloco", 6)])
def test_shards_are_exchanged_as_whole_models_are(name: str, shards: int) -> None:
    """Of six shards, some have no element of a small parameter."""
    sharded: dict[int, Tensor] = {}
    whole: dict[int, Tensor] = {}
    pr.simulate(sharded_in_sites, sharded, name, ranks=SITES * shards, on=pr.Simulator())
    pr.run(lambda worker: whole_in_sites(worker, name, whole), workers=SITES, strategy=strategy(name), on=pr.Simulator())
    for rank, weights in sharded.items():
        torch.testing.assert_close(weights, whole[rank // shards], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_other_systems_train_shards_too(name: str) -> None:
    found: dict[int, Tensor] = {}
    run = pr.simulate(sharded_in_sites, found, name, ranks=2 * SITES, on=pr.Simulator(network="slow"))
    assert all(torch.equal(found[rank], found[rank // 2 * 2]) for rank in found)
    assert all(weights.isfinite().all() for weights in found.values())
    assert run.summary.steps >= STEPS


def refusal(main: Callable[[], None]) -> str:
    with pytest.raises(CompositionError) as caught:
        pr.simulate(main, ranks=2)
    return str(caught.value)


def test_what_ranks_cannot_have_is_refused() -> None:
    def with_servers() -> None:
        with group():
            pr.join("ssp")

    def elsewhere() -> None:
        with group():
            alone = dist.new_group([0])
            if os.environ["RANK"] == "1":
                pr.join("allreduce", group=alone)

    def clipped() -> None:
        with group():
            model = fully_shard(perceptron())
            pr.join("allreduce").attach(model, torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=1.0)

    assert "norm of one rank's shards" in refusal(clipped)
    assert "has servers" in refusal(with_servers)
    assert "without servers" in refusal(with_servers)
    assert "not in the group" in refusal(elsewhere)
