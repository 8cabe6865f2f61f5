"""A proximal term that pulls the weights back to those of the last exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import LocalHooks
from polyrhythm.core.protocols.traits import LOCAL, LocalTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Proximal:
    """Adds mu (w - w0) to the gradient, w0 being the weights of the last exchange (FedProx; Li et al., MLSys 2020, eq. 2)."""

    traits: ClassVar = LocalTraits(LOCAL)

    mu: float

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise CompositionError(f"Proximal(mu={self.mu}) would push workers apart: give 0 or more.")

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(correct=self.correct)

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """g + mu (w - w0)."""
        return gradient - self.mu * context.moved


EXAMPLES = (Proximal(0.1),)
