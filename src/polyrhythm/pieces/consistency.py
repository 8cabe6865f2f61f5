"""What a consistency is: when a worker must speak, when it must listen, and when it may go on."""

from __future__ import annotations

from typing import Protocol

from polyrhythm.pieces.context import ExchangeContext
from polyrhythm.pieces.traits import ConsistencyTraits


class Consistency(Protocol):
    """Clocks count a worker's own steps from 1. `slowest` is the least clock whose contribution has been merged, over all workers.

    Law: a worker never goes on beyond its bound, and the slowest is never held up.
    """

    @property
    def traits(self) -> ConsistencyTraits:
        """What it declares of itself."""

    def exchanges(self, context: ExchangeContext) -> bool:
        """Whether a worker that has just taken step `clock` says something."""

    def pushes(self, clock: int) -> bool:
        """Whether what it says goes to the servers at once; else it is added to what it says next. Asked only where it does not wait."""

    def quorum(self, workers: int) -> int:
        """How many contributions whoever holds weights takes in at once."""

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """Whether a worker that has sent its step `mine` may go on."""

    def must_read(self, mine: int, known: float) -> bool:
        """Whether a worker at `mine` that last heard of `known` as the slowest must ask for fresh weights.

        It asks more often where it cannot tell what its own contributions did (`Agreement.previews`).
        """

    def may_merge(self, clock: float, mine: float) -> bool:
        """Whether a worker at `mine` may already take in what a peer sent at `clock`."""
