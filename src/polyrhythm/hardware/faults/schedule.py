"""The schedule of a run's faults: all that its rules draw from a seed, among the actors that there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults.actors import Join, Leave
from polyrhythm.hardware.faults.checks import FIRST, refuse_strangers
from polyrhythm.hardware.faults.crew_names import Newcomers
from polyrhythm.hardware.faults.fault import Fault, LineFault, begins, moment, places, remaining


class FaultRule(Protocol):
    """A rule that makes faults."""

    def expand(self, seed: int, place: int, actors: Sequence[str], newcomers: Newcomers) -> Sequence[Fault]:
        """The faults among `actors` and `newcomers`; `place` in the list of faults names the random stream."""


FaultSource = Fault | FaultRule
"""What a runtime takes as `faults`."""


def schedule(
    faults: Sequence[FaultSource], seed: int, actors: Sequence[str], began: float = 0.0, newcomers: Newcomers | None = None
) -> list[Fault]:
    """All faults among `actors` by time, those of one instant in the order given; then those that wait for a step.

    `newcomers` are those who may join: by default as many as there are places of workers, and only where faults say so. Of a run that
    begins at `began`, what is over by then is left out. Raises `UnknownNameError` for an actor that does not exist, and will not join.
    """
    newcomers = newcomers or Newcomers.of(actors)
    drawn = [
        fault
        for place, source in enumerate(faults)
        for fault in ([source] if isinstance(source, Fault) else source.expand(seed, place, actors, newcomers))
    ]
    joins = sum(type(fault) is Join for fault in drawn)
    for fault in drawn:
        elsewhere = ("host/", "site/") if isinstance(fault, LineFault) else ()  # places that only a network has
        named = [name for name in places(fault) if not name.startswith(elsewhere) and name != FIRST]
        refuse_strangers(actors, *(name for name in named if not newcomers.may_be(name, joins)))
        if moment(fault)[0].startswith("server/") and moment(fault)[1]:
            raise CompositionError(f"{fault} waits for a step, and {moment(fault)[0]} takes none: give at=SECONDS.")
    found = [rest for fault in drawn if (rest := remaining(fault, began)) is not None]
    return sorted(found, key=lambda fault: math.inf if (at := begins(fault)) is None else at)


def refuse_changes(faults: Sequence[Fault]) -> None:
    """Raise CompositionError for faults that change who takes part, in a run with a fixed number of workers."""
    for fault in faults:
        if isinstance(fault, Leave | Join):
            raise CompositionError(f"faults has a {type(fault).__name__}, and this run's crew is fixed: give workers=(2, 8).")
