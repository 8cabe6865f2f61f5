"""Protocol of consistencies: when a worker exchanges, when it must read weights, and when it may proceed.

Members are in `consistency`. Workers ask before and after each step; servers and clock tables ask before they merge or respond.
"""

from __future__ import annotations

from typing import Protocol

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import ConsistencyTraits


class Consistency(Protocol):
    """Decides when workers exchange and wait. Clocks count a worker's own steps from 1; `slowest` is the least merged clock of all workers.

    Law: a worker never proceeds beyond its bound, and the slowest is never held up.
    """

    @property
    def traits(self) -> ConsistencyTraits:
        """The properties that composition checks."""

    def exchanges(self, context: ExchangeContext) -> bool:
        """True if a worker that has just taken the step of the context's clock exchanges."""

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        """True if the worker of `rank` in `group` takes its step `clock`; else it skips the step: it computes and sends nothing.

        Called where the traits have `chooses`. Steps between two exchanges are taken by the same workers, as many as the quorum.
        """

    def pushes(self, clock: int) -> bool:
        """True if the contribution is pushed to the servers at once; else it is added to the next. Only where workers do not wait."""

    def quorum(self, workers: int) -> int:
        """The number of contributions that are merged at once."""

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """True if a worker that has sent its step `mine` may proceed."""

    def must_read(self, mine: int, known: float) -> bool:
        """True if a worker at `mine`, to which `known` was last reported as the slowest, must request fresh weights.

        It does so more often where it cannot compute the effect that its contributions have (`Agreement.previews`).
        """

    def may_merge(self, clock: float, mine: float) -> bool:
        """True if a worker at `mine` may already merge a contribution that a peer sent at `clock`."""
