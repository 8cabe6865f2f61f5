"""Runs on meshes of unequal replicas, and the training function that all of them have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import polyrhythm as pr
from polyrhythm.partition import GivenStages, Pipelined, StagesByReplica

from .layouts import BATCH, Net, mean_square

STEPS = 3


@dataclass(frozen=True)
class Unequal:
    """A mesh with the steps of each stage of each replica, for `Net` with its six steps."""

    mesh: pr.Mesh
    stages: tuple[tuple[int, ...], ...]

    def cut(self, **options: Any) -> pr.Cut:
        names = options.pop("names", {})
        division = StagesByReplica(tuple(GivenStages(own) for own in self.stages))
        return pr.Cut(names, pipeline=Pipelined(**{"micro_batches": 2, "division": division, **options}))

    def run(self, train: Callable[[pr.Worker], None], on: Any = None, strategy: Any = "allreduce", **options: Any) -> pr.Run:
        return pr.run(train, mesh=self.mesh, cut=self.cut(**options), strategy=strategy, on=on or pr.Simulator())


MESHES = {
    "1+2": Unequal(pr.Mesh(dp=2, pp=(1, 2)), ((6,), (2, 4))),
    "2+1": Unequal(pr.Mesh(dp=2, pp=(2, 1)), ((3, 3), (6,))),
    "2+3": Unequal(pr.Mesh(dp=2, pp=(2, 3)), ((3, 3), (1, 3, 2))),
    "1+2+3": Unequal(pr.Mesh(dp=3, pp=(1, 2, 3)), ((6,), (2, 4), (2, 2, 2))),
    "2+2 at other steps": Unequal(pr.Mesh(dp=3, pp=(2, 2, 1)), ((2, 4), (4, 2), (6,))),
    "two sites": Unequal(pr.Mesh(site=2, dp=2, pp=(1, 2, 2, 1)), ((6,), (2, 4), (4, 2), (6,))),
}


def data(step: int, part: int = 0) -> Tensor:
    return torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(10 * step + part), dtype=torch.float64)


@dataclass(frozen=True)
class Training:
    """A training function of a `Net`, tied or not, with Adam or momentum, on as many backward passes a step as are `accumulated`."""

    tied: bool = False
    adam: bool = False
    accumulated: int = 1
    clip: float | None = None
    saves: int | None = None

    def __call__(self, worker: pr.Worker) -> None:
        torch.manual_seed(3)
        model = Net(6, 7, self.tied)
        rates: dict[str, Any] = {"lr": 0.02} if self.adam else {"lr": 0.1, "momentum": 0.5}
        optimizer = (torch.optim.Adam if self.adam else torch.optim.SGD)(model.parameters(), **rates)
        model, optimizer = worker.attach(model, optimizer, loss=mean_square)
        rows = BATCH // worker.replicas
        own = slice(worker.replica * rows, (worker.replica + 1) * rows)
        for step in worker.range(STEPS):
            optimizer.zero_grad()
            for part in range(self.accumulated):
                x = data(step, part)
                worker.count(rows if worker.counts_samples else 0)
                loss = worker.train_step(x[own], x[own].sin())
            if self.clip is not None:
                worker.clip_gradients(self.clip)
            optimizer.step()
            worker.report(loss=worker.mean(loss.double()).item())
            if step == self.saves:
                worker.save()


def alone(train: Callable[[pr.Worker], None], **options: Any) -> pr.Run:
    """The run of one process."""
    return pr.run(train, mesh=pr.Mesh(dp=1), on=pr.Simulator(), **options)


def assert_equal(found: pr.Run, expected: pr.Run, tolerance: float = 1e-12) -> None:
    """The same weights by name, in the same order, up to rounding."""
    assert list(found.weights) == list(expected.weights)
    for name, value in found.weights.items():
        torch.testing.assert_close(value, expected.weights[name], rtol=tolerance, atol=tolerance)
