"""The payload of gradients that may be sparse."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.strategy.payloads.gradients import GradientPayload
from polyrhythm.errors import CompositionError


class RowsPayload:
    """A `GradientPayload` of gradients that may be sparse: rows that a batch did not touch are zeros.

    What was merged is dense, and so is what the optimizer then steps on. Raises CompositionError for one that takes sparse gradients only.
    """

    def __init__(self, local: LocalPart) -> None:
        self.local = local
        self.gradients = GradientPayload(local)
        if local.optimizer.takes_sparse_alone:
            raise CompositionError(
                f"{local.optimizer.kind} takes sparse gradients only, and what several workers' gradients are merged into is dense: use "
                "SGD or Adagrad, which leave a row without a gradient as it is."
            )

    @property
    def steps_here(self) -> bool:
        return self.gradients.steps_here

    def recipe(self) -> str:
        return self.gradients.recipe()

    def begin(self) -> None:
        self.gradients.begin()

    def rates(self) -> tuple[float, ...]:
        return self.gradients.rates()

    def step(self) -> bool:
        """Make the sparse parts of the gradient dense."""
        for parameter in self.local.parameters.parameters:
            if parameter.grad is not None and parameter.grad.layout != torch.strided:
                parameter.grad = parameter.grad.detach().to_dense()
        return self.gradients.step()

    def value(self) -> Tensor:
        return self.gradients.value()

    def rest(self) -> None:
        """None: every gradient was exchanged at its step."""
