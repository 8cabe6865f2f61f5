"""The payload of gradients that may be sparse."""

from __future__ import annotations

import torch

from polyrhythm.core.strategy.payloads.gradients import GradientPayload
from polyrhythm.core.strategy.payloads.protocol import ExchangingPart, PendingExchange
from polyrhythm.core.weights.state import Optimize
from polyrhythm.errors import CompositionError


class RowsPayload:
    """A `GradientPayload` of gradients that may be sparse: rows that a batch did not touch are zeros.

    What was merged is dense, and so is what the optimizer then steps on. Raises CompositionError for one that takes sparse gradients only.
    """

    def __init__(self, part: ExchangingPart) -> None:
        self.part = part
        self.gradients = GradientPayload(part)
        if part.optimizer.takes_sparse_alone:
            raise CompositionError(
                f"{part.optimizer.kind} takes sparse gradients only, and what several workers' gradients are merged into is dense: use "
                "SGD or Adagrad, which leave a row without a gradient as it is."
            )

    @property
    def optimize(self) -> Optimize | None:
        return self.gradients.optimize

    @property
    def steps_here(self) -> bool:
        return self.gradients.steps_here

    def recipe(self) -> str:
        return self.gradients.recipe()

    def begin(self) -> None:
        self.gradients.begin()

    def rates(self) -> tuple[float, ...]:
        return self.gradients.rates()

    def step(self) -> PendingExchange | None:
        """Exchange the gradient, whose sparse parts become dense."""
        for parameter in self.part.parameters.parameters:
            if parameter.grad is not None and parameter.grad.layout != torch.strided:
                parameter.grad = parameter.grad.detach().to_dense()
        return self.gradients.step()

    def finish(self) -> None:
        """Every gradient was exchanged at its step."""
