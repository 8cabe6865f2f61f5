"""Gradient tracking: workers mix, in addition to their weights, an estimate of the mean gradient, and step on that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import LocalHooks, LocallyStepped
from polyrhythm.core.protocols.traits import LocalTraits, Payload
from polyrhythm.core.tensors import Layout, State

_TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class TrackedGradients:
    """A worker steps on y, which tracks the mean gradient of all (DIGing; Nedic, Olshevsky, Shi, 2017, section 2).

    y' = W y + g' - g, from y = g, and x ← W (x - η y): weights and y are sent in every exchange. The state keeps c = y - g, which becomes
    c + W y - y. The c of all workers sum to 0, so the mean of the y is that of the gradients at every step. DIGing itself takes
    W x - η y; mixing after the step, as here, is its adapt-then-combine form. The mixing matrix must be doubly stochastic, and may change.
    """

    traits: ClassVar = LocalTraits(frozenset({Payload.WEIGHTS}), frozenset({Capability.MIXING}))
    vectors: ClassVar = 2
    least_eigenvalue: ClassVar[None] = None

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(initial=self.initial, correct=self.correct, mixing=self)

    def initial(self, layout: Layout) -> State:
        """A correction of zeros: each worker starts with its own gradient."""
        return {_TAKEN: torch.zeros(layout.numel)}

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """The tracked gradient y = g + c."""
        return gradient - state[_TAKEN].to(gradient)  # NO_GRADIENT, -0.0, minus a correction of 0.0 is still -0.0

    def send(self, stepped: LocallyStepped, state: State) -> tuple[Tensor, ...]:
        """Two vectors: the weights x - η y, and y."""
        return stepped.weights.clone(), stepped.gradient()

    def take(self, mixed: Sequence[Tensor], sent: Sequence[Tensor], state: State) -> tuple[Tensor, State]:
        """The mixed weights; the state is -c."""
        return mixed[0], {_TAKEN: state[_TAKEN].to(sent[1]) + (sent[1] - mixed[1])}
