"""Checks of the settings of faults; every fault makes them when it is made, and the schedule when the actors are known."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyrhythm.errors import CompositionError, UnknownNameError, nearest, unknown

FIRST = "first"
"""In place of an actor: the first worker that is there at that moment."""


def refuse_moment(fault: object, at: float | None, step: int | None, duration: float = 1.0) -> None:
    """Refuse a fault that does not have exactly one of `at` and `step`, or one with impossible times."""
    if (at is None) == (step is None):
        raise CompositionError(f"{fault} must begin at a time or after a step: give either at=SECONDS or step=STEPS.")
    refuse_times(fault, at or 0.0, duration)
    if step is not None and step < 1:
        raise CompositionError(f"{fault} cannot come after step {step}: the first is step 1.")


def refuse_times(fault: object, at: float, duration: float) -> None:
    """Refuse a beginning before zero or at infinity, and a duration of nothing."""
    if not 0 <= at < math.inf or not duration > 0:
        raise CompositionError(f"{fault} has impossible times. It must start at zero or later and last longer than nothing.")


def refuse_endless(fault: object, duration: float) -> None:
    """Refuse a pause without an end."""
    if duration == math.inf:
        raise CompositionError(f"{fault} would never end. Give finite seconds, or use a Crash.")


def refuse_rates(fault: object, per_hour: float | None, per_step: float | None, horizon: float) -> None:
    """Refuse a rule that does not have exactly one rate, or an impossible one."""
    if (per_hour is None) == (per_step is None):
        raise CompositionError(f"{fault} needs one rate: give either rate_per_hour= or rate_per_step=.")
    if not 0 <= (per_hour or 0.0) < math.inf or not 0 <= (per_step or 0.0) <= 1 or not 0 < horizon < math.inf:
        raise CompositionError(
            f"{fault} has an impossible rate or horizon. Give a rate of zero or more (of steps: at most 1), and a finite horizon."
        )


def refuse_strangers(actors: Sequence[str], *names: str) -> None:
    """Raise UnknownNameError for a name that is no actor's."""
    for name in names:
        if name not in actors:
            if len(actors) > 8 and not nearest(name, actors):  # a list of a thousand names would not help
                raise UnknownNameError(f"No actor is called {name!r}. There are {len(actors)}, from {actors[0]} to {actors[-1]}.")
            raise unknown("actor", name, actors)


def of_role(actors: Sequence[str], role: str) -> list[str]:
    """The actors of a role, such as "worker". Raises UnknownNameError for a role that nobody has."""
    roles = {actor.partition("/")[0] for actor in actors}
    if role not in roles:
        raise unknown("role", role, roles)
    return [actor for actor in actors if actor.partition("/")[0] == role]
