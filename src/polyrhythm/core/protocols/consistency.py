"""What a consistency is: when a worker exchanges, when it must read weights, and when it may go on."""

from __future__ import annotations

from typing import Protocol

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import ConsistencyTraits


class Consistency(Protocol):
    """Clocks count a worker's own steps from 1. `slowest` is the least clock whose contribution has been merged, over all workers.

    Law: a worker never goes on beyond its bound, and the slowest is never held up.
    """

    @property
    def traits(self) -> ConsistencyTraits:
        """What it declares of itself."""

    def exchanges(self, context: ExchangeContext) -> bool:
        """Whether a worker that has just taken the step of the context's clock exchanges."""

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        """Whether the worker of `rank` in `group` takes its step `clock`; else it passes it over: it computes and sends nothing.

        Asked where the traits have `chooses`. Steps between two exchanges are taken by the same workers, as many as the quorum.
        """

    def pushes(self, clock: int) -> bool:
        """Whether the contribution is pushed to the servers at once; else it is added to the next. Only where workers do not wait."""

    def quorum(self, workers: int) -> int:
        """How many contributions are merged at once."""

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """Whether a worker that has sent its step `mine` may go on."""

    def must_read(self, mine: int, known: float) -> bool:
        """Whether a worker at `mine`, to which `known` was last reported as the slowest, must request fresh weights.

        It does so more often where it cannot compute what its own contributions did (`Agreement.previews`).
        """

    def may_merge(self, clock: float, mine: float) -> bool:
        """Whether a worker at `mine` may already merge what a peer sent at `clock`."""
