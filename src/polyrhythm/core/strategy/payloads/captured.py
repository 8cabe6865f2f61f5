"""The factors of linear layers' gradients, captured between two steps: inputs, and the gradients of outputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.torch_private.one_process import version


class CapturedLayer:
    """The pairs (input, gradient of the output) that make up the gradient which `parameter`, of the linear layer `module`, has now.

    A pair comes from one use of the layer and one backward(). `pending` are those of a backward() that is under way; when the parameter
    has their gradient they are `settled`. Those of a gradient that was cleared meanwhile, to None or to zeros, are dropped. Inputs are kept
    until the step, under activation checkpointing too.
    """

    def __init__(self, module: nn.Module, parameter: nn.Parameter) -> None:
        self.parameter = parameter
        self.pending: list[tuple[Tensor, Tensor]] = []
        self.settled: list[tuple[Tensor, Tensor]] = []
        self.version = 0
        self._hooks = [
            module.register_forward_hook(self._used, with_kwargs=True),
            parameter.register_post_accumulate_grad_hook(self._settle),  # type: ignore[no-untyped-call]
        ]

    def factors(self) -> Factors | None:
        """The factors of the gradient that the parameter has; None where it has none."""
        if self.parameter.grad is None:
            return None
        self._drop_cleared()
        outs, ins = self.parameter.shape[0], self.parameter.shape[-1]
        pairs = [(x.reshape(-1, ins), d.reshape(-1, outs)) for x, d in self.settled] or [self._nothing(ins, outs)]
        return Factors(torch.cat([x for x, _ in pairs]), torch.cat([delta for _, delta in pairs]))

    def forget(self) -> None:
        """Drop all pairs: the gradient was exchanged."""
        self.pending, self.settled = [], []

    def close(self) -> None:
        """Remove the hooks from the layer."""
        for hook in self._hooks:
            hook.remove()

    def _nothing(self, ins: int, outs: int) -> tuple[Tensor, Tensor]:
        return self.parameter.new_empty(0, ins), self.parameter.new_empty(0, outs)

    def _used(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Tensor) -> None:
        if torch.is_grad_enabled() and output.requires_grad:
            given: Tensor = args[0] if args else kwargs["input"]
            output.register_hook(partial(self._came_back, given.detach()))  # type: ignore[no-untyped-call]

    def _came_back(self, given: Tensor, gradient: Tensor) -> None:
        if not self.pending:
            self._drop_cleared()
        self.pending.append((given.to(gradient.dtype), gradient.detach()))  # autocast has multiplied in the output's type

    def _settle(self, parameter: Tensor) -> None:
        self.settled += self.pending
        self.pending = []
        self.version = 0 if parameter.grad is None else version(parameter.grad)

    def _drop_cleared(self) -> None:
        grad = self.parameter.grad
        if grad is None or (version(grad) != self.version and not grad.any()):
            self.settled = []
