"""Pushes and fetches at intervals of their own, in the background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import GRADIENTS, ConsistencyTraits, Pattern, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Intervals:
    """Push accumulated gradients every `push` steps, fetch weights every `fetch` steps, and wait for neither (Dean et al., 2012, alg. 7.1).

    During a fetch a worker continues, each step on its own gradient and with its own optimizer, and replaces its weights
    at the first step after the fetched ones have arrived: the changes by its own steps meanwhile are dropped, but their gradients have been
    accumulated and are pushed. There is at most one fetch from each server at a time. Accumulated gradients are one contribution, as
    gradients of several backward() are.
    """

    traits: ClassVar = ConsistencyTraits(  # what accrues over several steps is the product of no step's factors
        GRADIENTS - {Payload.FACTORS}, frozenset({Pattern.SERVED}), order_matters=True, tolerates_loss=True, waits=False
    )

    push: int = 1
    fetch: int = 1

    def __post_init__(self) -> None:
        if not (self.push >= 1 and self.fetch >= 1):
            raise CompositionError(
                f"Intervals(push={self.push}, fetch={self.fetch}) would never exchange: both count steps, so give 1 (every step) or more."
            )

    def exchanges(self, context: ExchangeContext) -> bool:
        """Always: what is not pushed accrues."""
        return True

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        """Always."""
        return True

    def pushes(self, clock: int) -> bool:
        """At every multiple of `push`."""
        return clock % self.push == 0

    def quorum(self, workers: int) -> int:
        """Each by itself."""
        return 1

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """Always."""
        return True

    def must_read(self, mine: int, known: float) -> bool:
        """At every multiple of `fetch`."""
        return mine % self.fetch == 0

    def may_merge(self, clock: float, mine: float) -> bool:
        """Whatever has come."""
        return True
