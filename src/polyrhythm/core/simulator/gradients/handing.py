"""Outputs that were computed elsewhere, handed to a program, and the gradients that come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.simulator.gradients.values import Shape


class Handed(torch.autograd.Function):
    """Outputs in the graph of the program's own loss; the gradients that reach them are kept for the backward pass elsewhere."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, keep: Callable[[tuple[Tensor, ...]], None], *leaves: Tensor) -> tuple[Tensor, ...]:
        ctx.keep = keep
        return tuple(leaf.data for leaf in leaves)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        ctx.keep(gradients)
        return (None, None, *[None] * len(gradients))


def handed_over(leaves: Sequence[Tensor], shape: Shape, keep: Callable[[tuple[Tensor, ...]], None]) -> Any:
    """The value of a model's call, of these leaves; `keep` gets the gradients of those that have some."""
    anchor = torch.zeros((), requires_grad=True)
    handed = iter(Handed.apply(anchor, keep, *[leaf.data for leaf in leaves if leaf.requires_grad]))  # type: ignore[no-untyped-call]
    return shape([next(handed) if leaf.requires_grad else leaf for leaf in leaves])


def accumulate(parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    """Add to the gradients of `parameters`, as autograd does."""
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is None:
                continue
            if parameter.grad is None:
                parameter.grad = gradient.data  # with a version counter of its own
            else:
                parameter.grad.add_(gradient)
