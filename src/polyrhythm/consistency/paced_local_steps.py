"""Local steps whose number a controller decides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from polyrhythm.consistency.asynchronous import Asynchronous
from polyrhythm.core.protocols.consistency import Conditions, Consistency, Moment
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.traits import ConsistencyTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class PacedLocalSteps:
    """Local steps of which each worker's controller decides the number between two exchanges; at first it is `tau`.

    Workers that take different numbers of steps cannot wait for each other, so `then` must be a rule under which nobody waits.
    """

    tau: int
    then: Consistency = field(default_factory=Asynchronous)

    def __post_init__(self) -> None:
        if not self.tau >= 1:
            raise CompositionError(f"PacedLocalSteps(tau={self.tau}) would never exchange: give 1 step or more.")
        if self.then.conditions.waits:
            raise CompositionError(
                f"PacedLocalSteps(then={self.then!r}) would have workers wait for others that take fewer steps: give a rule under which "
                "nobody waits for other workers, such as Asynchronous() or Buffered(4)."
            )

    @property
    def traits(self) -> ConsistencyTraits:
        """The traits of `then`, for updates, as the gradients are used locally. A controller may set the number of steps."""
        return replace(self.then.traits, payloads=frozenset({Payload.UPDATE}), takes=frozenset({ControlledSetting.LOCAL_STEPS}))

    @property
    def conditions(self) -> Conditions:
        """The conditions of `then`, with an exchange at every multiple of the current number of steps."""
        return replace(self.then.conditions, exchanges=self._exchanges)

    def _exchanges(self, moment: Moment) -> bool:
        return moment.clock % max(1, int(moment.controls.value(ControlledSetting.LOCAL_STEPS, self.tau))) == 0


EXAMPLES = (PacedLocalSteps(3),)
