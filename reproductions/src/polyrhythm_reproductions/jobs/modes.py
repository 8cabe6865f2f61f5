"""One training function for all modes of parallelism: what divides the model and the batch is in the arguments of `run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.partition.mesh import Mesh

BATCH, STEPS, INPUTS, WIDTH, HIDDEN, CLASSES = 16, 20, 8, 12, 24, 4


class ResidualBlock(nn.Module):
    """A residual block of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.act = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width) to the same."""
        y: Tensor = x + self.down(self.act(self.up(self.norm(x))))
        return y


@dataclass(frozen=True, slots=True)
class Residuals:
    """Two residual blocks between two layers, trained for 20 steps by `worker.train_step`."""

    seed: int
    replicas: int = 1

    def __call__(self, worker: Worker) -> None:
        """Train as one of the workers."""
        model = self.build()
        optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        model, optimizer = worker.attach(model, optimizer, loss=F.cross_entropy)
        for x, y in worker.batches(self.samples(), batch_size=BATCH // self.replicas):
            optimizer.zero_grad()
            worker.train_step(x, y)
            optimizer.step()

    def build(self) -> nn.Sequential:
        """The whole model."""
        torch.manual_seed(self.seed)
        return nn.Sequential(nn.Linear(INPUTS, WIDTH), ResidualBlock(), ResidualBlock(), nn.Linear(WIDTH, CLASSES))

    def samples(self) -> tuple[Tensor, Tensor]:
        """All samples."""
        x = torch.randn(BATCH * STEPS, INPUTS, generator=torch.Generator().manual_seed(self.seed))
        return x, x[:, :CLASSES].argmax(1)


def weights_of(seed: int, mesh: Mesh | None = None, replicas: int = 1, **layout: Any) -> Mapping[str, Tensor]:
    """The weights after training on that mesh, by default in one process; `layout` is as in `run`."""
    chosen = {"workers": 1, "strategy": "single"} if mesh is None else {"mesh": mesh, **layout}
    return run(Residuals(seed, replicas), on=Simulator(seed=seed), seed=seed, **chosen).weights
