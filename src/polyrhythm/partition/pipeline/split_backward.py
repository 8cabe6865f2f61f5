"""Backward passes in two parts: what the stage before waits for, and the gradients of weights.

Within a `Split`, operations of `SPLIT` are small graphs of their own, of which a backward pass makes the gradient of the input only; those
of weights are made by `weights()`, when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

SPLIT: tuple[Callable[..., Tensor], ...] = (F.linear, torch.conv1d, torch.conv2d, torch.conv3d)
"""Functions (input, weight, bias, …) whose weights wait: F.conv2d is torch.conv2d."""


class Split(TorchFunctionMode):
    """A context for the forward pass of one micro-batch."""

    def __init__(self) -> None:
        super().__init__()
        self._left: list[Callable[[], None]] = []

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if func not in SPLIT or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        given = dict(zip(("input", "weight", "bias"), args[:3], strict=False))
        given |= {name: kwargs.pop(name) for name in ("input", "weight", "bias") if name in kwargs}
        weight, bias = given["weight"], given.get("bias")
        if not weight.requires_grad:
            return func(given["input"], weight, bias, *args[3:], **kwargs)
        return _Apart.apply(self._left, lambda *of: func(*of, *args[3:], **kwargs), given["input"], weight, bias)  # type: ignore[no-untyped-call]

    def weights(self) -> None:
        """Make the gradients of weights that the backward pass has left, in the order in which it came to them."""
        for each in self._left:
            each()
        self._left.clear()


class _Apart(Function):
    @staticmethod
    def forward(ctx: Any, left: list[Callable[[], None]], operation: Any, value: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.left, ctx.real = left, (weight, bias)
        with torch.enable_grad():
            ctx.own = [None if each is None else each.detach().requires_grad_() for each in (value, weight, bias)]
            ctx.output = operation(*ctx.own)
        output: Tensor = ctx.output.detach()
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        value, *weights = ctx.own
        output, real = ctx.output, ctx.real
        ctx.output = ctx.own = ctx.real = None
        of_input = None
        if ctx.needs_input_grad[2]:
            (of_input,) = torch.autograd.grad(output, value, gradient, retain_graph=True)

        def later() -> None:
            pairs = [(own, true) for own, true in zip(weights, real, strict=True) if true is not None and true.requires_grad]
            found = torch.autograd.grad(output, [own for own, _ in pairs], gradient)
            for (_, true), each in zip(pairs, found, strict=True):
                torch.autograd.backward(true, each, retain_graph=true.grad_fn is not None)

        ctx.left.append(later)
        return None, None, of_input, None, None
