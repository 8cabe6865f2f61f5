"""Gradients with momentum and weight decay, written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Increments:
    """Puts what a step adds to parameters into their `.grad`: momentum times the last increment, plus gradient and decay.

    It is how Hinton's programs do it, and the optimizer is SGD without momentum: increments are sums, as gradients are, so that they can be
    averaged over workers, and servers need not follow a momentum that changes. `state_dict` and `load_state_dict` are for checkpoints.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self._last = [torch.zeros_like(each, requires_grad=False) for each in self.parameters]

    def put(self, gradients: Sequence[Tensor], momentum: float = 0.0, decays: Sequence[float] = ()) -> None:
        """Set the gradients of all parameters, in their order; `decays` are the factors of the weight decay of the first ones."""
        each_decay = [*decays, *[0.0] * (len(self.parameters) - len(decays))]
        for parameter, last, gradient, decay in zip(self.parameters, self._last, gradients, each_decay, strict=True):
            last.mul_(momentum).add_(gradient).add_(parameter.detach(), alpha=decay)
            parameter.grad = last.clone()  # an exchange may write the mean of all workers in its place

    def state_dict(self) -> dict[str, list[Tensor]]:
        """The last increments."""
        return {"last": self._last}

    def load_state_dict(self, state: dict[str, list[Tensor]]) -> None:
        """Continue from the increments that `state_dict` gave."""
        for last, kept in zip(self._last, state["last"], strict=True):
            last.copy_(kept)
