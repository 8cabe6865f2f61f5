"""Bulk-synchronous parallel: everybody speaks at every step and waits for everybody."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.pieces.traits import EVERY_PATTERN, Pattern, Payload


@dataclass(frozen=True, slots=True)
class BulkSynchronous:
    """Every worker speaks at every step and goes on when all have been heard (Valiant, 1990)."""

    @property
    def offers(self) -> frozenset[Payload]:
        """Gradients: nobody moves before all have spoken."""
        return frozenset({Payload.GRADIENT})

    @property
    def patterns(self) -> frozenset[Pattern]:
        """Any."""
        return EVERY_PATTERN

    @property
    def order_matters(self) -> bool:
        """No: a group is everybody, merged in rank order."""
        return False

    @property
    def tolerates_loss(self) -> bool:
        """No: all wait for the one that is gone."""
        return False

    @property
    def waits(self) -> bool:
        """Yes."""
        return True

    def speaks(self, clock: int) -> bool:
        """Always."""
        return True

    def pushes(self, clock: int) -> bool:
        """Always."""
        return True

    def group(self, workers: int) -> int:
        """Everybody."""
        return workers

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """When everybody's step `mine` has been merged."""
        return slowest >= mine

    def must_read(self, mine: int, known: float) -> bool:
        """Always."""
        return True

    def takes(self, clock: float, mine: float) -> bool:
        """Nothing from a step that I have not reached."""
        return clock <= mine
