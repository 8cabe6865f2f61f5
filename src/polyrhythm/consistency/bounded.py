"""Stale-synchronous parallel: fast workers may run ahead of slow ones by a bounded number of steps."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.consistency.bulk_synchronous import BulkSynchronous
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.consistency import Conditions
from polyrhythm.core.protocols.traits import GRADIENTS, ConsistencyTraits
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
        return ConsistencyTraits(GRADIENTS, frozenset({Capability.CLOCKS}), order_matters=self.slack > 0, tolerates_loss=False)

    @property
    def conditions(self) -> Conditions:
        """A worker reads when the weights last read may be staler than the bound. Without slack all wait for all."""
        if not self.slack:
            return BulkSynchronous.conditions
        return Conditions(may_proceed=self._near, must_read=lambda mine, known: not self._near(mine, known))

    def _near(self, mine: int, slowest: float) -> bool:
        """True while a worker is no more than `slack` steps ahead of the slowest."""
        return mine - slowest <= self.slack


EXAMPLES = (Bounded(0), Bounded(3))
