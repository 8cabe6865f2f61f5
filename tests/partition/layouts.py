"""Random layouts of a small model, drawn from seeds: meshes, cuts, schedules, ZeRO stages, accumulation and clipping."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.partition import Columns, GPipe, Interleaved, OneForwardOneBackward, Pipelined, Recompute, Rows, Step, Zero, ZeroBubble

BATCH, STEPS, LAYERS = 24, 3, 4


class Layer(nn.Module):
    """A residual layer with a frozen scale and a weight that is not used."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.scale = nn.Parameter(torch.tensor(0.5), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.scale * self.down(F.gelu(self.up(self.norm(x))))
        return y


class Transposed(nn.Module):
    """The product with a weight that another layer may have too."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, 5))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class Net(nn.Module):
    """Layers between a first and a last one, which may be tied."""

    def __init__(self, width: int, hidden: int, tied: bool) -> None:
        super().__init__()
        self.first = nn.Linear(5, width, bias=False)
        self.layers = nn.ModuleList(Layer(width, hidden) for _ in range(LAYERS))
        self.last = Transposed(width)
        if tied:
            self.last.weight = self.first.weight
        self.double()

    def sequence(self) -> list[Step]:
        inner = [Step(layer, (f"layers.{number}",)) for number, layer in enumerate(self.layers)]
        return [Step(self.first, ("first",)), *inner, Step(self.last, ("last",))]

    def forward(self, x: Tensor) -> Tensor:
        for step in self.sequence():
            x = step.function(x)
        return x


@dataclass(frozen=True)
class Drawn:
    """What a seed gives: the model's options, the run's, and the mesh that one process has in its place."""

    width: int
    hidden: int
    tied: bool
    accumulated: int
    clip: float | None
    mesh: pr.Mesh
    cut: pr.Cut
    strategy: Any


def drawn(seed: int) -> Drawn:
    """A layout of 8 workers at most."""
    draw = random.Random(seed)
    while True:
        sizes = {name: draw.choice((1, 1, 2, 2, 3, 4)) for name in draw.sample(("site", "dp", "pp", "tp"), draw.randint(1, 4))}
        replicas = sizes.get("site", 1) * sizes.get("dp", 1)
        if 2 <= torch.Size(sizes.values()).numel() <= 8 and BATCH % (2 * replicas) == 0 and sizes.get("pp", 1) < 4:
            break
    hidden = draw.choice((6, 7, 12))
    weights = tuple(draw.choice((1.0, 2.0, 0.0)) for _ in range(sizes.get("tp", 1)))
    shares = weights if sum(weights) > 0 and draw.random() < 0.5 else None
    names: dict[str, Any] = {}
    if "tp" in sizes:
        cut_layers = draw.choice(("*", "1", "[02]"))
        whole = draw.random() < 0.3
        names = {
            f"layers.{cut_layers}.up": Columns("tp", gathered=whole, weights=shares),
            f"layers.{cut_layers}.down": Rows("tp", whole_input=whole, weights=shares),
        }
    pipeline = None
    if "pp" in sizes:
        schedule = draw.choice((GPipe(), OneForwardOneBackward(), ZeroBubble(), Interleaved(2)))
        chunks = 2 if isinstance(schedule, Interleaved) else 1
        schedule = schedule if chunks * sizes["pp"] <= LAYERS + 2 else GPipe()
        options = {"memory": Recompute()} if draw.random() < 0.3 else {}
        pipeline = Pipelined(micro_batches=draw.choice((1, 2, 3, 5)), schedule=schedule, **options)
    strategy: dict[str, Any] = {name: "allreduce" for name in ("site", "dp") if name in sizes}
    if "dp" in sizes:
        strategy["dp"] = draw.choice(("allreduce", Zero(1), Zero(2), Zero(3)))
    clip = draw.choice((None, 0.1))
    if clip is not None and (
        strategy.get("dp") == Zero(1) or any(each == "allreduce" and sizes[name] > 1 for name, each in strategy.items())
    ):
        clip = None  # gradients are merged in the step alone
    cut = pr.Cut(names, pipeline=pipeline)
    return Drawn(draw.choice((4, 9)), hidden, draw.random() < 0.4, draw.choice((1, 2)), clip, pr.Mesh(**sizes), cut, strategy)


def mean_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()
