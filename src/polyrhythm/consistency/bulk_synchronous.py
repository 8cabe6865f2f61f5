"""Bulk-synchronous parallel: all workers exchange at every step and wait for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import GRADIENTS, WAITED, ConsistencyTraits, Pattern


@dataclass(frozen=True, slots=True)
class BulkSynchronous:
    """Every worker exchanges at every step and continues when all contributions have been merged (Valiant, 1990)."""

    traits: ClassVar = ConsistencyTraits(GRADIENTS, WAITED | {Pattern.COMBINED}, order_matters=False, tolerates_loss=False)

    def exchanges(self, context: ExchangeContext) -> bool:
        return True

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        return True

    def pushes(self, clock: int) -> bool:
        return True

    def quorum(self, workers: int) -> int:
        return workers

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """True when step `mine` of all workers has been merged."""
        return slowest >= mine

    def must_read(self, mine: int, known: float) -> bool:
        return True

    def may_merge(self, clock: float, mine: float) -> bool:
        """True for steps that the worker has reached."""
        return clock <= mine
