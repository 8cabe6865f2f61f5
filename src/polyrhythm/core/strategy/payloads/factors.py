"""The payload of gradients with their factors, which a codec may send instead of the product."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.core.strategy.local_part import LocalPart
from polyrhythm.core.strategy.payloads.captured import CapturedLayer
from polyrhythm.core.strategy.payloads.gradients import GradientPayload
from polyrhythm.errors import CompositionError

_SHOWN = 3


class FactorsPayload:
    """A `GradientPayload` that shows the codec the factors of every linear layer of the part.

    Raises CompositionError for parameters that belong to no linear layer, and for gradients that would be clipped before they are sent.
    """

    def __init__(self, local: LocalPart) -> None:
        self.local = local
        self.gradients = GradientPayload(local)
        self._refuse_others()
        self._refuse_clipped()
        self.layers = {path: CapturedLayer(*found) for path, found in local.parameters.owners("weight").items()}

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
        """Take the factors that make up the gradient; the codec sees them in the exchange that follows."""
        found = {path: layer.factors() for path, layer in self.layers.items()}
        self.local.state.factors = {path: factors for path, factors in found.items() if factors is not None}
        for layer in self.layers.values():
            layer.forget()
        return self.gradients.step()

    def value(self) -> Tensor:
        return self.gradients.value()

    def rest(self) -> None:
        """Remove the hooks from the layers; every gradient was exchanged at its step."""
        self.local.state.factors = {}
        for layer in self.layers.values():
            layer.close()

    def _refuse_others(self) -> None:
        linear = {name for name, module in self.local.parameters.modules.items() if _is_linear(module)}
        others = [name for name in self.local.parameters.layout.names if name not in linear]
        if others:
            shown = ", ".join(others[:_SHOWN]) + (f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else "")
            raise CompositionError(
                f"{self.local.agreement.codec!r} sends factors of linear layers, and {shown} belong to none: use it for selected "
                'parameters, such as CheaperAsFactors(batch) or Modules("Linear").'
            )

    def _refuse_clipped(self) -> None:
        if self.gradients.served and self.local.optimizer.clip_norm is not None:
            raise CompositionError(
                f"clip_norm={self.local.optimizer.clip_norm} clips a worker's gradient before servers get it, and factors multiply out to "
                "the whole: leave clip_norm out, or exchange factors collectively, where the merged gradient is clipped."
            )


def _is_linear(module: object) -> bool:
    """True if a class of the module is named Linear, as for selections: modules of a timing-only run are linear by name alone."""
    return any(kind.__name__ == "Linear" for kind in type(module).__mro__)
