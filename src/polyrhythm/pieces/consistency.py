"""What a consistency is: when a worker must speak, when it must listen, and when it may go on."""

from __future__ import annotations

from typing import Protocol

from polyrhythm.pieces.traits import Pattern, Payload


class Consistency(Protocol):
    """Clocks count a worker's own steps from 1. `slowest` is the least clock whose contribution has been merged, over all workers.

    Law: a worker never goes on beyond its bound, and the slowest is never held up.
    """

    @property
    def offers(self) -> frozenset[Payload]:
        """What a worker can say under this rule."""

    @property
    def patterns(self) -> frozenset[Pattern]:
        """How it can be sent."""

    @property
    def order_matters(self) -> bool:
        """Whether results depend on the order in which messages arrive."""

    @property
    def tolerates_loss(self) -> bool:
        """Whether the others can go on when a worker is gone."""

    @property
    def waits(self) -> bool:
        """Whether a worker that reads goes on only when the response has come; else it takes it over at the first step after that."""

    def speaks(self, clock: int) -> bool:
        """Whether a worker that has just taken step `clock` says something."""

    def pushes(self, clock: int) -> bool:
        """Whether what it says goes to the servers at once; else it is added to what it says next. Asked only where it does not wait."""

    def group(self, workers: int) -> int:
        """How many contributions whoever holds weights takes in at once."""

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """Whether a worker that has sent its step `mine` may go on."""

    def must_read(self, mine: int, known: float) -> bool:
        """Whether a worker at `mine` that last heard of `known` as the slowest must ask for fresh weights.

        It asks more often where it cannot tell what its own contributions did (`Agreement.previews`).
        """

    def takes(self, clock: float, mine: float) -> bool:
        """Whether a worker at `mine` may already take in what a peer sent at `clock`."""
