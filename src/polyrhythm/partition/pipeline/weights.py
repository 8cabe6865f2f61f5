"""With which weights the passes of a batch are done, and what becomes of the gradients."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.stage import Stages, Tied


class StageWeights(Protocol):
    """The weights of one rank over the training steps."""

    def begin(self, step: int) -> None:
        """Note those that the batch of this number is to be passed through with."""

    def of(self, batch: int) -> AbstractContextManager[None]:
        """A context in which the stages have the weights of that batch."""

    def finish(self, step: int) -> None:
        """Give the parameters the gradients that they are to have after this step."""

    @property
    def kept(self) -> int:
        """The numbers that are kept beside the parameters and their gradients."""


class CurrentWeights:
    """The weights as they are, for a step that ends with an empty pipeline.

    The gradients that it adds to tied parameters are summed over their holders; what these had before is set aside meanwhile, so that it is
    not summed again.
    """

    kept = 0

    def __init__(self, stages: Stages, axis: Axis) -> None:
        self._model, self._tied, self._axis = stages.model, stages.tied, axis
        self._before: list[Tensor | None] = []

    def begin(self, step: int) -> None:
        parameters = [self._model.get_parameter(each.name) for each in self._tied]
        self._before = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None

    def of(self, batch: int) -> AbstractContextManager[None]:
        return nullcontext()

    def finish(self, step: int) -> None:
        for tied, before in zip(self._tied, self._before, strict=True):
            parameter = self._model.get_parameter(tied.name)
            if parameter.requires_grad:
                own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                total = self._sum(own, tied)
                parameter.grad = total if before is None else before + total

    def _sum(self, own: Tensor, tied: Tied) -> Tensor:
        """The sum in the order of ranks, so that all holders get the same bits."""
        others = [rank for rank in tied.holders if rank != self._axis.index]
        found = self._axis.exchange(dict.fromkeys(others, own), dict.fromkeys(others, own.shape), own)
        found[self._axis.index] = own
        return torch.stack([found[rank] for rank in tied.holders]).sum(0)
