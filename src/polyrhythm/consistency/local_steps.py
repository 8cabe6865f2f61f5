"""Local steps: each worker runs its own optimizer for a while between exchanges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from polyrhythm.consistency.bulk_synchronous import BulkSynchronous
from polyrhythm.consistency.schedules import Every, ExchangeSchedule
from polyrhythm.core.protocols.consistency import Conditions, Consistency
from polyrhythm.core.protocols.traits import ConsistencyTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


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
        return Every(self.tau) if isinstance(self.tau, int) else self.tau

    @property
    def traits(self) -> ConsistencyTraits:
        """The traits of `then`, for updates or weights, as the gradients are used locally."""
        return replace(self.then.traits, payloads=frozenset({Payload.UPDATE, Payload.WEIGHTS}))

    @property
    def conditions(self) -> Conditions:
        """The conditions of `then`, with exchanges at multiples of tau, or at the steps of the schedule.

        A worker pushes and reads where `then` has it do so at one of the steps since the last exchange.
        """
        schedule, then = self.schedule, self.then.conditions

        def since(clock: int) -> range:
            return range(clock, schedule.before(clock), -1)  # the last first, because it decides for most rules

        return replace(
            then,
            exchanges=lambda moment: schedule.due(moment.clock),
            pushes=lambda clock: any(map(then.pushes, since(clock))),
            must_read=lambda mine, known: any(then.must_read(step, known) for step in since(mine)),
        )


EXAMPLES = (LocalSteps(1), LocalSteps(4), LocalSteps(Every(4, offset=1)))
