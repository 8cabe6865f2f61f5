"""Nesterov momentum over rounds of local steps, for workers that average in small groups and never all agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.local import LocalHooks, LocallyStepped
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_MOMENTUM = "momentum"


@dataclass(frozen=True, slots=True)
@checked
class GossipNesterov:
    """δ ← α δ - β Δ̄ - γ (φ - φ̄); φ ← φ + δ, a bar being the mean over those who exchange (NoLoCo; Kolehmainen et al., 2025, section 3).

    φ are a worker's weights after its last exchange and Δ = φ - θ what its local steps have done since; both are sent. The last term pulls
    the members of a small group together, which in DiLoCo share one φ. With α = 0 and β = γ = 1 the weights θ themselves are averaged. The
    paper lets γ differ from β; the code that its authors have published takes one number for both, 0.7, and momenta of 0.3 to 0.9.
    """

    traits: ClassVar = LocalTraits(frozenset({Payload.WEIGHTS}), frozenset({Capability.MIXING}), accumulates=True)
    vectors: ClassVar = 2
    least_eigenvalue: ClassVar[None] = None

    alpha: float = 0.5
    beta: float = 0.7
    gamma: float = 0.7

    def __post_init__(self) -> None:
        if any(isinstance(each, bool) for each in (self.alpha, self.beta, self.gamma)) or not (
            0 <= self.alpha < 1 and self.beta > 0 and 0 < self.gamma < 2 + 2 * self.alpha
        ):
            raise CompositionError(
                f"{self} would not converge: give an alpha of at least 0 and below 1, a positive beta, and a gamma that pulls together and "
                "does not overshoot, above 0 and below 2 + 2 alpha, such as 0.5, 0.7 and 0.7."
            )

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(initial=self.initial, mixing=self)

    def initial(self, layout: Layout) -> State:
        return {_MOMENTUM: torch.zeros(layout.numel)}

    def send(self, stepped: LocallyStepped, state: State) -> tuple[Tensor, ...]:
        """Two vectors, which the neighbours mix: φ and Δ."""
        return stepped.anchor.clone(), stepped.anchor - stepped.weights

    def take(self, mixed: Sequence[Tensor], sent: Sequence[Tensor], state: State) -> tuple[Tensor, State]:
        """The new weights φ + δ; the state is δ."""
        momentum = self.alpha * state[_MOMENTUM].to(sent[0]) - self.beta * mixed[1] - self.gamma * (sent[0] - mixed[0])
        return sent[0] + momentum, {_MOMENTUM: momentum}
