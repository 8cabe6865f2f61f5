"""Fully asynchronous: nobody waits for anybody."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.pieces.traits import Pattern, Payload


@dataclass(frozen=True, slots=True)
class Asynchronous:
    """Asynchronous SGD: every worker speaks at every step and waits for no other worker, but for the response of a server it asks.

    Intervals does not wait for that either.
    """

    @property
    def offers(self) -> frozenset[Payload]:
        """Gradients; updates or weights within LocalSteps."""
        return frozenset({Payload.GRADIENT})

    @property
    def patterns(self) -> frozenset[Pattern]:
        """One-sided."""
        return frozenset({Pattern.SERVED, Pattern.PEERS})

    @property
    def order_matters(self) -> bool:
        """Yes: contributions are merged as they arrive."""
        return True

    @property
    def tolerates_loss(self) -> bool:
        """Yes: nobody waits for the one that is gone."""
        return True

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
        """Each by itself."""
        return 1

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """Always."""
        return True

    def must_read(self, mine: int, known: float) -> bool:
        """Always: fresh weights every time it speaks."""
        return True

    def takes(self, clock: float, mine: float) -> bool:
        """Whatever has come."""
        return True
