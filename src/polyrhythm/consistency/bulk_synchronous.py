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
        """Always."""
        return True

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        """Always."""
        return True

    def pushes(self, clock: int) -> bool:
        """Always."""
        return True

    def quorum(self, workers: int) -> int:
        """All."""
        return workers

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """When step `mine` of all has been merged."""
        return slowest >= mine

    def must_read(self, mine: int, known: float) -> bool:
        """Always."""
        return True

    def may_merge(self, clock: float, mine: float) -> bool:
        """Nothing from a step that I have not reached."""
        return clock <= mine
