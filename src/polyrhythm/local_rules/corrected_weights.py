"""Weights corrected for the changes that mixing made to them, so that a constant step size leaves no bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.local import LocalHooks, LocallyStepped
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.tensors import Layout, State

_TAKEN = "taken"
_LIMIT = -1 / 3


@dataclass(frozen=True, slots=True)
class CorrectedWeights:
    """A worker sends its weights plus what mixing has taken from them so far (D²: Tang et al., 2018; exact diffusion: Yuan et al., 2019).

    With ψ = x - η g: x ← W (ψ + c), c ← c + W (ψ + c) - (ψ + c), from c = 0. That is x' = W (2 x - x⁻ - η g + η g⁻), D²'s algorithm 1, and
    exact diffusion's adapt, correct and combine with (I + W) / 2 for W. The c of all workers sum to 0, so the mean of the weights is
    not changed. The mixing matrix must be symmetric, with its least eigenvalue above -1/3. Any optimizer may make ψ of x.
    """

    traits: ClassVar = LocalTraits(frozenset({Payload.WEIGHTS}), frozenset({Capability.MIXING, Capability.SYMMETRIC}))
    vectors: ClassVar = 1
    least_eigenvalue: ClassVar = _LIMIT

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(initial=self.initial, mixing=self)

    def initial(self, layout: Layout) -> State:
        """A correction of zeros, before the first mixing."""
        return {_TAKEN: torch.zeros(layout.numel)}

    def send(self, stepped: LocallyStepped, state: State) -> tuple[Tensor, ...]:
        return (stepped.weights - state[_TAKEN].to(stepped.weights),)

    def take(self, mixed: Sequence[Tensor], sent: Sequence[Tensor], state: State) -> tuple[Tensor, State]:
        """The mixed weights; the state is -c."""
        return mixed[0], {_TAKEN: state[_TAKEN].to(sent[0]) + (sent[0] - mixed[0])}
