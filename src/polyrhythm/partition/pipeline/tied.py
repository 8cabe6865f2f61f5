"""Sums the gradients of parameters that more than one rank of a pipeline has, so that all their copies get the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.stage import Tied


class TiedGradients:
    """The gradients that one training step adds to tied parameters; what they had before is set aside, so that it is not added up again."""

    def __init__(self, model: nn.Module, tied: Sequence[Tied], axis: Axis) -> None:
        self._model, self._tied, self._axis = model, tied, axis
        self._before: list[Tensor | None] = []

    def begin(self) -> None:
        """Set aside what earlier steps have left."""
        parameters = [self._model.get_parameter(each.name) for each in self._tied]
        self._before = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None

    def finish(self) -> None:
        """Add the sum of all holders' gradients, in the order of ranks, to what was set aside."""
        for tied, before in zip(self._tied, self._before, strict=True):
            parameter = self._model.get_parameter(tied.name)
            if parameter.requires_grad:
                own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                total = self._sum(own, tied)
                parameter.grad = total if before is None else before + total

    def _sum(self, own: Tensor, tied: Tied) -> Tensor:
        others = [rank for rank in tied.holders if rank != self._axis.index]
        found = self._axis.exchange(dict.fromkeys(others, own), dict.fromkeys(others, own.shape), own)
        found[self._axis.index] = own
        return torch.stack([found[rank] for rank in tied.holders]).sum(0)
