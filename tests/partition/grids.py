"""Models, meshes and sums for the laws of modules that are divided by samples and by features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.place import Place
from polyrhythm.partition.placement import placement_of
from polyrhythm.partition.tensor_parallel.cube import Cube
from polyrhythm.partition.tensor_parallel.summa import Summa
from polyrhythm.partition.tensor_parallel.tesseract import Tesseract
from polyrhythm.workloads.gpt import Gpt, GptSize

from .ranks import close, on_ranks


class Residual(nn.Module):
    """A residual block of two layers, of odd sizes."""

    def __init__(self, width: int = 10, hidden: int = 14) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.down(self.act(self.up(self.norm(x))))
        return y


@dataclass(frozen=True)
class Case:
    """A style with its mesh."""

    style: Any
    sizes: dict[str, int]
    steps: int = 4

    def __str__(self) -> str:
        return f"{type(self.style).__name__}-{'x'.join(map(str, self.sizes.values()))}"


def summa(r: int, c: int, steps: int = 4, **settings: Any) -> Case:
    return Case(Summa(**settings), {"row": r, "column": c}, steps)


def tesseract(d: int, r: int, c: int, steps: int = 4, **settings: Any) -> Case:
    return Case(Tesseract(**settings), {"depth": d, "row": r, "column": c}, steps)


def cube(x: int, y: int, z: int, steps: int = 4, **settings: Any) -> Case:
    return Case(Cube(**settings), {"x": x, "y": y, "z": z}, steps)


Forward = Callable[[nn.Module, int], tuple[Tensor, Tensor]]
"""For a model and a step: its outputs and its loss."""


def of_numbers(batch: int, width: int) -> Forward:
    """Samples of real numbers, and their mean square."""

    def forward(model: nn.Module, step: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(batch, 3, width, generator=torch.Generator().manual_seed(step))
        y = model(x)
        return y, y.square().mean()

    return forward


def of_symbols(batch: int, time: int, vocabulary: int) -> Forward:
    """Texts, and the cross-entropy of their next symbols."""

    def forward(model: nn.Module, step: int) -> tuple[Tensor, Tensor]:
        text = torch.randint(vocabulary, (batch, time + 1), generator=torch.Generator().manual_seed(step))
        scores = model(text[:, :-1])
        return scores, F.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())

    return forward


def trained(model: nn.Module, forward: Forward, steps: int) -> list[Tensor]:
    """The outputs of all steps."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    outputs = []
    for step in range(steps):
        optimizer.zero_grad()
        y, loss = forward(model, step)
        loss.backward()
        optimizer.step()
        outputs.append(y.detach())
    return outputs


def gpt(vocabulary: int = 13, width: int = 16, heads: int = 4) -> Gpt:
    torch.manual_seed(3)
    return Gpt(GptSize(vocabulary, 8, 1, width, heads))


def trains_as_one_process(
    make: Callable[[], nn.Module],
    divide: Callable[[nn.Module, Place], nn.Module],
    forward: Forward,
    sizes: dict[str, int],
    steps: int,
    one: Callable[[nn.Module], nn.Module] = lambda model: model,
) -> None:
    """Outputs, and weights put together from the ranks' pieces, are those of `one` process, within rounding."""
    outputs = trained(whole := one(make()), forward, steps)

    def program(place: Place, rank: int) -> Any:
        model = divide(make(), place)
        return trained(model, forward, steps), list(model.named_parameters())

    final = dict(whole.named_parameters())
    pieces = {name: torch.full_like(value, torch.nan) for name, value in final.items()}
    for found, own in on_ranks(program, **sizes):
        for mine, theirs in zip(found, outputs, strict=True):
            close(mine, theirs)
        assert [name for name, _ in own] == list(final)
        for name, value in own:
            placement_of(value).piece.put(value.detach(), pieces[name])
    for name, value in final.items():
        close(pieces[name], value.detach())
