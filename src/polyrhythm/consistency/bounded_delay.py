"""Bounded delay: a step starts when all but the last few before it have finished."""

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
class BoundedDelay:
    """Step t starts when all steps up to t - `delay` - 1 have finished at all workers (Li et al., OSDI 2014, section 3.4).

    A step has finished when the contributions of all workers to it have been merged, all at once. With a delay of 0
    steps are sequential, as under `BulkSynchronous`; with None they are eventual, and nobody waits. Between the two, workers compute
    while others, and messages, are under way. `ServerRing` gathers the contributions of one step; `Server` as many, from any steps.
    """

    delay: int | None = 0

    def __post_init__(self) -> None:
        if self.delay is not None and not self.delay >= 0:
            raise CompositionError(f"BoundedDelay(delay={self.delay}) lets no step start: give 0 (sequential) or more, or None (eventual).")

    @property
    def traits(self) -> ConsistencyTraits:
        """Servers gather the contributions of a step; unless the delay is 0, the weights of a step depend on the order of arrival."""
        return ConsistencyTraits(GRADIENTS, frozenset({Capability.SERVER}), order_matters=self.delay != 0, tolerates_loss=False)

    @property
    def conditions(self) -> Conditions:
        """Step `mine` + 1 may start while no more than `delay` steps are unfinished; a worker reads when it could not on what it knows."""
        if self.delay == 0:
            return BulkSynchronous.conditions
        if self.delay is None:
            return Conditions(quorum=_all)
        return Conditions(quorum=_all, may_proceed=self._near, must_read=lambda mine, known: not self._near(mine, known))

    def _near(self, mine: int, slowest: float) -> bool:
        return self.delay is None or mine - slowest <= self.delay


def _all(workers: int) -> int:
    return workers


EXAMPLES = (BoundedDelay(), BoundedDelay(2), BoundedDelay(None))
