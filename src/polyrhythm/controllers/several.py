"""Several controllers at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from polyrhythm.core.protocols.controller import Controller, ControllerTraits, Decision, Measurements
from polyrhythm.core.protocols.nested import divide, under
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Several:
    """Each of `controllers` decides its own settings, all from the same measurements."""

    controllers: tuple[Controller, ...]

    def __post_init__(self) -> None:
        sets = [setting for each in self.controllers for setting in each.traits.sets]
        twice = sorted({setting.value for setting in sets if sets.count(setting) > 1})
        if twice:
            raise CompositionError(f"{self!r} has two controllers of {', '.join(twice)}: give each setting one.")

    @property
    def traits(self) -> ControllerTraits:
        """The settings of all controllers; the interval is the greatest common divisor of theirs."""
        traits = [each.traits for each in self.controllers]
        return ControllerTraits(
            frozenset(setting for each in traits for setting in each.sets),
            reduce(math.gcd, (each.every for each in traits)) if traits else 1,
            any(each.sees_others for each in traits),
        )

    def decide(self, measured: Measurements, state: State) -> tuple[Sequence[Decision], State]:
        """The decisions of the controllers that are due at this clock, in order."""
        found: list[Decision] = []
        after = dict(state)
        own = divide(state, map(str, range(len(self.controllers))))
        for number, each in enumerate(self.controllers):
            if measured.clock % each.traits.every == 0:
                decisions, new = each.decide(measured, own[str(number)])
                found += decisions
                after |= under(str(number), new)
        return found, after
