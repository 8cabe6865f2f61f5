"""Local steps: each worker runs its own optimizer for a while between exchanges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from polyrhythm.consistency.bulk_synchronous import BulkSynchronous
from polyrhythm.consistency.schedules import Every, ExchangeSchedule
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import ConsistencyTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

_every = lru_cache(maxsize=64)(Every)
"""Cached because it is needed at every step."""


@dataclass(frozen=True, slots=True)
@checked
class LocalSteps:
    """Take `tau` steps with each worker's own optimizer, then exchange the update or the weights; `then` is the rule for waiting.

    (SparkNet; Moritz et al., 2015. With `then=Asynchronous()`: asynchronous periodic exchange, as in DeepSpark, Kim et al., 2016.) `then`
    counts steps, whatever tau is: a push or read that is due between two exchanges, as under Intervals, is done at the second. Where
    exchanges are not `tau` steps apart throughout, a schedule takes its place: `LocalSteps(Switched(100, 8))`.
    """

    tau: int | ExchangeSchedule
    then: Consistency = field(default_factory=BulkSynchronous)

    def __post_init__(self) -> None:
        if isinstance(self.tau, int) and self.tau < 1:
            raise CompositionError(
                f"LocalSteps(tau={self.tau}) would never exchange: tau is the number of steps between exchanges, so give 1 or more."
            )
        if not isinstance(self.tau, int) and any(getattr(type(self.tau), name, None) is None for name in ("due", "before")):
            raise CompositionError(
                f"LocalSteps(tau={self.tau!r}) does not say when to exchange: give the whole number of steps between exchanges, such as 8, "
                "or a schedule, such as Switched(100, 8)."
            )

    @property
    def schedule(self) -> ExchangeSchedule:
        """The steps after which an exchange follows."""
        return _every(self.tau) if isinstance(self.tau, int) else self.tau

    @property
    def traits(self) -> ConsistencyTraits:
        """The traits of `then`, for updates or weights, as the gradients are used locally."""
        return replace(self.then.traits, payloads=frozenset({Payload.UPDATE, Payload.WEIGHTS}))

    def exchanges(self, context: ExchangeContext) -> bool:
        """True at every multiple of tau, or at the steps of the schedule."""
        return self.schedule.due(context.clock)

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        return self.then.takes_part(clock, rank, group)

    def pushes(self, clock: int) -> bool:
        """True if `then` pushes at one of the steps since the last exchange."""
        return any(self.then.pushes(step) for step in self._since(clock))

    def quorum(self, workers: int) -> int:
        return self.then.quorum(workers)

    def may_proceed(self, mine: int, slowest: float) -> bool:
        return self.then.may_proceed(mine, slowest)

    def must_read(self, mine: int, known: float) -> bool:
        """True if `then` must read at one of the steps since the last exchange."""
        return any(self.then.must_read(step, known) for step in self._since(mine))

    def may_merge(self, clock: float, mine: float) -> bool:
        return self.then.may_merge(clock, mine)

    def _since(self, clock: int) -> range:
        """The steps since the exchange before `clock`, the last first, because it decides for most rules."""
        return range(clock, self.schedule.before(clock), -1)
