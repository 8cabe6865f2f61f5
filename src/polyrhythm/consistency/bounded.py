"""Stale-synchronous parallel: fast workers may run ahead of slow ones by a bounded number of steps."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import GRADIENTS, ONE_SIDED, ConsistencyTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Bounded:
    """Let a worker run at most `slack` steps ahead of the slowest (Ho et al., 2013; SSP of Petuum, Xing et al., 2015).

    If servers add updates, a worker reads fresh weights only when those that it last read could be staler than the bound allows; in
    between it adds its own contributions to them. If an optimizer is applied to the contributions, it reads at every
    step. Bounded(0) is BulkSynchronous: all workers wait for all, and their contributions are merged together.
    """

    slack: int

    def __post_init__(self) -> None:
        if not self.slack >= 0:
            raise CompositionError(
                f"Bounded(slack={self.slack}) lets no worker continue: slack counts steps, so give 0 (lockstep) or more."
            )

    @property
    def traits(self) -> ConsistencyTraits:
        """The order matters where contributions are merged as they arrive, which is with slack; without slack all are merged at once."""
        return ConsistencyTraits(GRADIENTS, ONE_SIDED, order_matters=self.slack > 0, tolerates_loss=False)

    def exchanges(self, context: ExchangeContext) -> bool:
        return True

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        return True

    def pushes(self, clock: int) -> bool:
        return True

    def quorum(self, workers: int) -> int:
        """One contribution; without slack, those of all workers."""
        return 1 if self.slack else workers

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """True while it is no more than `slack` steps ahead of the slowest."""
        return mine - slowest <= self.slack

    def must_read(self, mine: int, known: float) -> bool:
        """True if the weights last read may be staler than the bound; without slack, always."""
        return not (self.slack and self.may_proceed(mine, known))

    def may_merge(self, clock: float, mine: float) -> bool:
        """True for all that has come; without slack, only for steps that the worker has reached."""
        return self.slack > 0 or clock <= mine
