"""Pushes and fetches in the background, each at its own interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.consistency import Conditions
from polyrhythm.core.protocols.traits import GRADIENTS, ConsistencyTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Intervals:
    """Push accumulated gradients every `push` steps, fetch weights every `fetch` steps, and wait for neither (Dean et al., 2012, alg. 7.1).

    During a fetch a worker continues, each step on its own gradient and with its own optimizer, and replaces its weights
    at the first step after the fetched ones have arrived: the changes of the steps in between are dropped, but their gradients have been
    accumulated and are pushed. There is at most one fetch from each server at a time. Accumulated gradients are one contribution, as
    those of several backward() calls are.
    """

    traits: ClassVar = ConsistencyTraits(  # a sum over several steps has no factors
        GRADIENTS - {Payload.FACTORS}, frozenset({Capability.SERVER}), order_matters=True, tolerates_loss=True, waits=False
    )

    push: int = 1
    fetch: int = 1

    def __post_init__(self) -> None:
        if not (self.push >= 1 and self.fetch >= 1):
            raise CompositionError(
                f"Intervals(push={self.push}, fetch={self.fetch}) would never exchange: both count steps, so give 1 (every step) or more."
            )

    @property
    def conditions(self) -> Conditions:
        """A worker exchanges at every step, as gradients that are not pushed accumulate."""
        return Conditions(pushes=lambda clock: clock % self.push == 0, must_read=lambda mine, known: mine % self.fetch == 0)


EXAMPLES = (Intervals(), Intervals(push=2, fetch=3))
