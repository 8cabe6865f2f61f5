"""What a stage keeps of a micro-batch between its forward and its backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from polyrhythm.core.torch_private.one_process import NormBase
from polyrhythm.partition.pipeline.values import mapped, tensors_of

Run = Callable[[Any], Any]
"""A chunk's forward pass of one micro-batch; it gives the same at each call."""


class Live(Protocol):
    """A micro-batch after its forward pass."""

    @property
    def output(self) -> Any:
        """What the forward pass returned, without a graph."""

    def graph(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The tensors of its input and of its output, with the graph between them."""


class Rematerialization(Protocol):
    """A choice of what is kept, and what is computed again."""

    def forward(self, run: Run, value: Any, module: nn.Module) -> Live:
        """Run the forward pass of a chunk of `module`."""


@dataclass(frozen=True, slots=True)
class KeepActivations:
    """Keep all that the backward pass needs."""

    def forward(self, run: Run, value: Any, module: nn.Module) -> Live:
        given = leaf(value)
        return _Kept(given, run(given))


@dataclass(frozen=True, slots=True)
class Recompute:
    """Keep the input of the stage only, and do the forward pass again before the backward pass (Chen et al., 2016; Huang et al., 2019).

    Random numbers are the same again, and running statistics of normalizations are taken once.
    """

    def forward(self, run: Run, value: Any, module: nn.Module) -> Live:
        with torch.no_grad():
            return _Again(run, leaf(value), mapped(run(value), Tensor.detach), module)


def leaf(value: Any) -> Any:
    """The value as an input whose gradients are wanted."""
    return mapped(value, lambda each: each.detach().requires_grad_(each.is_floating_point() or each.is_complex()))


@dataclass(frozen=True, slots=True)
class _Kept:
    given: Any
    made: Any

    @property
    def output(self) -> Any:
        return mapped(self.made, Tensor.detach)

    def graph(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        return tensors_of(self.given), tensors_of(self.made)


@dataclass(frozen=True, slots=True)
class _Again:
    run: Run
    given: Any
    output: Any
    module: nn.Module

    def graph(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        with torch.enable_grad(), _statistics_are_taken(self.module):
            return tensors_of(self.given), tensors_of(self.run(self.given))


@contextmanager
def _statistics_are_taken(module: nn.Module) -> Iterator[None]:
    """A context in which batch normalizations leave their running statistics as they are."""
    counting = [each for each in module.modules() if isinstance(each, NormBase) and each.training and each.track_running_stats]
    for each in counting:
        each.track_running_stats = False
    try:
        yield
    finally:
        for each in counting:
            each.track_running_stats = True
