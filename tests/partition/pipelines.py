"""Models and training loops that the tests of pipelines have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.pipeline.step import Step
from polyrhythm.partition.place import Place
from polyrhythm.partition.placement import placement_of

SYMBOLS, WIDTH, ROWS, TIME = 11, 6, 9, 3


class Language(nn.Module):
    """Symbols to scores of symbols in so many steps, of which the first and the last may have one weight."""

    def __init__(self, layers: int, tied: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(SYMBOLS, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers - 2))
        self.score = nn.Linear(WIDTH, SYMBOLS, bias=False)
        self.scale = nn.Parameter(torch.ones(WIDTH))
        if tied:
            self.score.weight = self.embedding.weight

    def layer(self, number: int) -> Step:
        def run(x: Tensor) -> Tensor:
            return x + torch.tanh(self.layers[number](x))

        return Step(run, (f"layers.{number}",))

    def last(self, x: Tensor) -> Tensor:
        scores: Tensor = self.score(x * self.scale)
        return scores

    def sequence(self) -> list[Step]:
        middle = [self.layer(number) for number in range(len(self.layers))]
        return [Step(self.embedding, ("embedding",)), *middle, Step(self.last, ("score", "scale"))]

    def forward(self, x: Tensor) -> Any:
        for step in self.sequence():
            x = step.function(x)
        return x


def mean(scores: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def sample(step: int, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    drawn = torch.Generator().manual_seed(step)
    inputs, targets = (torch.randint(SYMBOLS, (rows, TIME), generator=drawn) for _ in range(2))
    return inputs, targets


OBJECTIVE = MeanLoss(mean)


def alone(model: nn.Module, steps: int, rate: float = 0.1) -> list[float]:
    """The losses of one process."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for step in range(steps):
        inputs, targets = sample(step)
        optimizer.zero_grad()
        loss = mean(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def piped(pipelined: Pipelined, model: nn.Module, place: Place, steps: int, rate: float = 0.1) -> tuple[list[float], dict[str, Any]]:
    """The losses that a rank of a pipeline sees, and its parameters with their placements."""
    pipeline = pipelined.local(model, place, OBJECTIVE)
    parameters = list(pipeline.module.parameters())
    optimizer = torch.optim.Adam(parameters, lr=rate) if parameters else None
    losses = []
    for step in range(steps):
        pipeline.module.zero_grad()
        losses.append(pipeline.step(*sample(step)).item())
        if optimizer is not None:
            optimizer.step()
    for loss in pipeline.remaining():
        losses.append(loss.item())
    return losses, {name: (value.detach(), placement_of(value)) for name, value in pipeline.module.named_parameters()}


def together(ranks: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """The parameters of all owners; copies are equal to theirs."""
    found = {name: value for each in ranks for name, (value, place) in each.items() if not place.copy_of}
    for each in ranks:
        for value, place in each.values():
            if place.copy_of:
                assert torch.equal(found[place.copy_of], value)
    assert len(found) == sum(not place.copy_of for each in ranks for _, place in each.values()), "one owner each"
    return found
