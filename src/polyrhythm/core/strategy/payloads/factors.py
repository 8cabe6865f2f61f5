"""The gradient of a worker's batch is exchanged as what multiplies out to it."""

from __future__ import annotations

from functools import partial

from polyrhythm.core.protocols.responses import Response
from polyrhythm.core.strategy.payloads.captured import CapturedLayer
from polyrhythm.core.strategy.payloads.gradients import GradientPayload
from polyrhythm.core.strategy.payloads.protocol import ExchangingPart, PendingExchange
from polyrhythm.core.weights.state import Optimize
from polyrhythm.errors import CompositionError

_SHOWN = 3


class FactorsPayload:
    """A `GradientPayload` that shows the codec the factors of every linear layer of the part.

    Raises CompositionError for parameters that belong to no linear layer, and for gradients that would be clipped before they are sent.
    """

    def __init__(self, part: ExchangingPart) -> None:
        self.part = part
        self.gradients = GradientPayload(part)
        self._refuse_others()
        self._refuse_clipped()
        self.layers = {path: CapturedLayer(*found) for path, found in part.parameters.owners("weight").items()}

    @property
    def optimize(self) -> Optimize | None:
        """As for gradients."""
        return self.gradients.optimize

    @property
    def steps_here(self) -> bool:
        """As for gradients."""
        return self.gradients.steps_here

    def recipe(self) -> str:
        """As for gradients."""
        return self.gradients.recipe()

    def begin(self) -> None:
        """As for gradients."""
        self.gradients.begin()

    def rates(self) -> tuple[float, ...]:
        """As for gradients."""
        return self.gradients.rates()

    def step(self) -> PendingExchange:
        """Exchange the gradient, with its factors beside it."""
        found = {path: layer.factors() for path, layer in self.layers.items()}
        self.part.state.factors = {path: factors for path, factors in found.items() if factors is not None}
        pending = self.gradients.step()
        assert pending is not None, "factors of a layer are sent together"
        return PendingExchange(pending.start, partial(self._conclude, pending))

    def _conclude(self, pending: PendingExchange, response: Response) -> None:
        self.part.state.factors = {}
        for layer in self.layers.values():
            layer.forget()
        pending.conclude(response)

    def finish(self) -> None:
        """None: every gradient was exchanged at its step. The layers are left alone from now on."""
        for layer in self.layers.values():
            layer.close()

    def _refuse_others(self) -> None:
        linear = {name for name, module in self.part.parameters.modules.items() if _is_linear(module)}
        others = [name for name in self.part.parameters.layout.names if name not in linear]
        if others:
            shown = ", ".join(others[:_SHOWN]) + (f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else "")
            raise CompositionError(
                f"{self.part.agreement.codec!r} sends factors of linear layers, and {shown} belong to none: use it for selected "
                'parameters, such as CheaperAsFactors(batch) or Modules("Linear").'
            )

    def _refuse_clipped(self) -> None:
        if self.gradients.served and self.part.optimizer.clip_norm is not None:
            raise CompositionError(
                f"clip_norm={self.part.optimizer.clip_norm} clips a worker's gradient before servers get it, and factors multiply out to "
                "the whole: leave clip_norm out, or exchange factors collectively, where the merged gradient is clipped."
            )


def _is_linear(module: object) -> bool:
    """By the names of its classes, as selections go: a timing-only run has modules that are linear by name alone."""
    return any(kind.__name__ == "Linear" for kind in type(module).__mro__)
