"""Local steps of which a controller says how many."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from polyrhythm.consistency.asynchronous import Asynchronous
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.traits import ConsistencyTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

_FAR = 2**40


@dataclass(frozen=True, slots=True)
@checked
class PacedLocalSteps:
    """As `LocalSteps`, but each worker takes as many steps between exchanges as its controller has decided, at first `tau`.

    Workers that take other numbers of steps cannot wait for each other's, so `then` must be a rule under which nobody does.
    """

    tau: int
    then: Consistency = field(default_factory=Asynchronous)

    def __post_init__(self) -> None:
        if not self.tau >= 1:
            raise CompositionError(f"PacedLocalSteps(tau={self.tau}) would never exchange: give 1 step or more.")
        if not self.then.may_proceed(_FAR, 0):
            raise CompositionError(
                f"PacedLocalSteps(then={self.then!r}) would have workers wait for others that take fewer steps: give a rule under which "
                "nobody waits for other workers, such as Asynchronous() or Buffered(4)."
            )

    @property
    def traits(self) -> ConsistencyTraits:
        """As the waiting rule's, but for updates: the gradients are spent. How many steps it takes may be set."""
        return replace(self.then.traits, payloads=frozenset({Payload.UPDATE}), takes=frozenset({ControlledSetting.LOCAL_STEPS}))

    def exchanges(self, context: ExchangeContext) -> bool:
        """At every multiple of what is in force."""
        return context.clock % max(1, int(context.controls.value(ControlledSetting.LOCAL_STEPS, self.tau))) == 0

    def takes_part(self, clock: int, rank: int, group: Group) -> bool:
        """As the waiting rule."""
        return self.then.takes_part(clock, rank, group)

    def pushes(self, clock: int) -> bool:
        """As the waiting rule."""
        return self.then.pushes(clock)

    def quorum(self, workers: int) -> int:
        """As the waiting rule."""
        return self.then.quorum(workers)

    def may_proceed(self, mine: int, slowest: float) -> bool:
        """As the waiting rule: always."""
        return self.then.may_proceed(mine, slowest)

    def must_read(self, mine: int, known: float) -> bool:
        """As the waiting rule."""
        return self.then.must_read(mine, known)

    def may_merge(self, clock: float, mine: float) -> bool:
        """As the waiting rule."""
        return self.then.may_merge(clock, mine)
