"""The length of a JOB's training by its own settings: the setting that says so, found by its name. `look` observes the steps of a length,
and scenarios lengthen runs by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_UNITS = ("epochs?|passes", "episodes?", "(?:time_?)?steps|iters?|iterations?|updates|rounds")
"""What is counted, the largest first: a JOB with epochs and steps has so many of these in an epoch, or at most."""
_MANY = "(?:(?:n|nb|num|number_of|max|total|train|training)_?)*"
LONGER = 8
"""A run may take so many times the JOB's own length until it reaches the target."""


@dataclass(frozen=True, slots=True)
class Length:
    """The setting `name` is `own` where nothing else is said."""

    name: str
    own: int

    def times(self, factor: float) -> dict[str, int]:
        """The settings of a run that is so many times as long."""
        return {self.name: max(1, round(self.own * factor))}


def length_in(settings: Mapping[str, Any]) -> Length | None:
    """The length among settings and their values; None where none has such a name and is a whole number above zero."""
    for unit in _UNITS:
        for name, value in settings.items():
            if re.fullmatch(_MANY + f"(?:{unit})", name.lower()) and isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return Length(name, value)
    return None


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of the first runs of the JOB at one worker.

    `metrics` are the names of those that it gives; `untrained` is the target's before the first step, None where it was not evaluated
    there; `real` the seconds that a step takes by the clock, and `evaluating` those of an evaluation. `unit` is the number of steps that
    one more of its length takes at one worker, None where that is not known; `whole` the number of steps by its own settings where no
    setting has its length; `divided` that workers share these among them. Options of the optimizer are `scheduled` if they depend on the
    length. An epoch of the data has `pass_length` batches.
    """

    metrics: frozenset[str] = frozenset()
    untrained: float | None = None
    real: float = 0.0
    evaluating: float = 0.0
    unit: float | None = None
    whole: float | None = None
    divided: bool = True
    scheduled: bool = False
    pass_length: int | None = None
