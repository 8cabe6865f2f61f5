"""Stale-synchronous parallel: fast workers run ahead, but only so far."""

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

    If servers add updates, a worker reads fresh weights only when those it last read could be staler than the bound allows; in
    between it adds its own contributions to them. If an optimizer is applied to the contributions, it reads at every
    step. Bounded(0) is BulkSynchronous: all wait for all, and contributions of all are merged together.
    """

    slack: int

    def __post_init__(self) -> None:
        if not self.slack >= 0:
            raise CompositionError(
                f"Bounded(slack={self.slack}) lets no worker continue: slack counts steps, so give 0 (lockstep) or more."
            )

    @property
    def traits(self) -> ConsistencyTraits:
        """The order matters where contributions are merged as they arrive: not without slack, which merges all at once."""
        return ConsistencyTraits(GRADIENTS, ONE_SIDED, order_matters=self.slack > 0, tolerates_loss=False)

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
        """Each by itself; without slack, all."""
        return 1 if self.slack else workers

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """While no more than `slack` ahead of the slowest."""
        return mine - slowest <= self.slack

    def must_read(self, mine: int, known: float) -> bool:
        """When what was last read may be staler than the bound; without slack, always."""
        return not (self.slack and self.may_proceed(mine, known))

    def may_merge(self, clock: float, mine: float) -> bool:
        """Whatever has come; without slack, nothing from a step that I have not reached."""
        return self.slack > 0 or clock <= mine
