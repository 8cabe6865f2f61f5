"""Bounded delay: a step starts when all but the last few before it have finished."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import GRADIENTS, ConsistencyTraits, Pattern
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
        return ConsistencyTraits(GRADIENTS, frozenset({Pattern.SERVED}), order_matters=self.delay != 0, tolerates_loss=False)

    def exchanges(self, context: ExchangeContext) -> bool:
        return True

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        return True

    def pushes(self, clock: int) -> bool:
        return True

    def quorum(self, workers: int) -> int:
        return workers

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """True if step `mine` + 1 may start: while no more than `delay` steps are unfinished."""
        return self.delay is None or mine - slowest <= self.delay

    def must_read(self, mine: int, known: float) -> bool:
        """True if the next step could not start on the known state; with a delay of 0, and without a bound, always."""
        return not self.delay or not self.may_proceed(mine, known)

    def may_merge(self, clock: float, mine: float) -> bool:
        """True for all that has come; with a delay of 0, only for steps that the worker has reached."""
        return self.delay != 0 or clock <= mine
