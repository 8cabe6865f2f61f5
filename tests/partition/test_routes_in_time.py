"""Laws of routes in virtual time: as fast as the machines of a stage together, and replicas that learn from each other's samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.partition.pipeline import ByMeasuredSpeed, BySpeed, GPipe, Pipelined, RandomRoutes

WIDTH, MICRO, STEPS = 16, 32, 5
MACHINES = [((1.0, 1.0), (1.0, 0.25)), ((1.0, 0.5), (0.5, 1.0)), ((2.0, 1.0), (1.0, 1.0))]


def train(worker: pr.Worker) -> None:
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(2)))
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
    for _ in worker.range(STEPS):
        worker.count(MICRO if worker.counts_samples else 0)
        optimizer.zero_grad()
        worker.train_step(torch.ones(MICRO, WIDTH), torch.zeros(MICRO, WIDTH))
        optimizer.step()


def seconds(machines: tuple[tuple[float, ...], ...], routes: Any) -> float:
    """Of a step, the last: machines take turns by stage, on a mesh whose stages are outside."""
    devices = pr.hardware.Fleet((pr.Device("core", 1e6, 0.0),), (pr.hardware.Mixed(tuple(each for stage in machines for each in stage)),))
    cut = pr.Cut(pipeline=Pipelined(micro_batches=MICRO, schedule=GPipe(), routes=routes))
    run = pr.run(train, mesh=pr.Mesh(pp=2, dp=2), cut=cut, on=pr.Simulator(network=pr.Instant(), devices=devices))
    ends = [
        max(event.time for event in run.outcome.events if isinstance(event, Stepped) and event.clock == step) for step in (STEPS - 1, STEPS)
    ]
    return ends[1] - ends[0]


@pytest.mark.parametrize("machines", MACHINES, ids=repr)
def test_a_stage_is_as_fast_as_its_machines_together(machines: tuple[tuple[float, ...], ...]) -> None:
    """Equal shares wait for the slowest machine of all; by speed a step takes all micro-batches over the least sum of speeds of a stage."""
    equal = seconds(machines, None)
    alone = min(min(stage) for stage in machines)
    together = min(sum(stage) for stage in machines) / 2
    for routes in (BySpeed(machines), ByMeasuredSpeed()):
        assert equal / seconds(machines, routes) == pytest.approx(together / alone, rel=0.1)


def replicas(routes: Any, strategy: str, spread: float = 1.0) -> list[Tensor]:
    """The weights of each replica, in one vector, after steps on samples of its own kind."""
    found: dict[tuple[int, int], Tensor] = {}

    def own(worker: pr.Worker) -> None:
        torch.manual_seed(0)
        model: nn.Module = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(2)))
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
        model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
        for step in worker.range(19):
            worker.count(8 if worker.counts_samples else 0)
            optimizer.zero_grad()
            drawn = torch.Generator().manual_seed(100 * step + worker.replica)
            x = torch.randn(8, WIDTH, generator=drawn)
            worker.train_step(x, (x + spread * worker.replica).sin())
            optimizer.step()
        found[worker.replica, worker.rank] = torch.cat([each.detach().view(-1) for each in model.parameters()])

    cut = pr.Cut(pipeline=Pipelined(micro_batches=4, routes=routes))
    pr.run(own, mesh=pr.Mesh(dp=4, pp=2), cut=cut, strategy=strategy, on=pr.Simulator())
    return [torch.cat([found[key] for key in sorted(found) if key[0] == replica]) for replica in range(4)]


def apart(vectors: list[Tensor]) -> float:
    """The variance over replicas."""
    return torch.stack(vectors).var(0).sum().item()


def test_random_routes_make_replicas_agree_more() -> None:
    """Before any exchange of weights: each replica of a stage has learnt from the samples of all (NoLoCo, section 3.1)."""
    assert apart(replicas(RandomRoutes(), "local-sgd")) < 0.5 * apart(replicas(None, "local-sgd"))
