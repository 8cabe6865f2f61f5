"""Hours in which a machine is away, or slow: a laptop in use by day, a pool that is given to others at night."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from polyrhythm.core import units
from polyrhythm.errors import CompositionError

_DAY = 86400.0
_MOST = 10_000
"""So many changes of the hours without any time between them are taken for all."""


class Hours(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"seconds": "for"}):
    """From `at` on, for so many `seconds`, every so often, a step takes `factor` times as long; without a factor the machine is away.

    Times count from the beginning of the run, as text ("8 h") or in seconds; `every` is a day where it is not given. A machine that is
    away computes nothing, and continues where it was: a laptop that sleeps.

    Examples:
        >>> Hours("8 h", "10 h").speed(9 * 3600), Hours("8 h", "10 h", factor=4).speed(33 * 3600), Hours("8 h", "10 h").speed(0)
        (0.0, 0.25, 1.0)
    """

    at: str | float
    seconds: str | float
    every: str | float = _DAY
    factor: float | None = None

    def __post_init__(self) -> None:
        at, length, period = self.window
        if not (at >= 0 and 0 < length < period < math.inf):
            raise CompositionError(
                f"{self} cannot be: give at (0 or more), and for, which is more than 0 and less than every; the rest is when it is there."
            )
        if self.factor is not None and not 0 < self.factor < math.inf:
            raise CompositionError(f"{self} has no factor that is possible: give one above 0, or leave it out for a machine that is away.")

    @property
    def window(self) -> tuple[float, float, float]:
        """The first beginning, the length and the period, in seconds."""
        return units.duration(self.at), units.duration(self.seconds), units.duration(self.every)

    def speed(self, now: float) -> float:
        """The part of its speed that the machine has at the moment `now`."""
        begin, end, _ = self._around(now)
        return (0.0 if self.factor is None else 1 / self.factor) if begin <= now < end else 1.0

    def next(self, now: float) -> float:
        """The next moment after `now` at which that changes."""
        return next(each for each in self._around(now) if each > now)

    def _around(self, now: float) -> tuple[float, float, float]:
        """The beginning and the end of the hours that began last by `now`, or begin first, and when they begin again."""
        at, length, period = self.window
        place = max(0, math.floor((now - at) / period) + 1)
        while place and at + place * period > now:  # rounding may have gone beyond
            place -= 1
        begin = at + place * period
        return begin, begin + length, at + (place + 1) * period


def stretched(hours: Sequence[Hours], now: float, seconds: float) -> float:
    """The seconds that work of so many `seconds` takes which begins at `now`, with these hours; their speeds multiply.

    Raises CompositionError for hours that leave no time at all.

    Examples:
        >>> stretched((Hours(10.0, 5.0, 100.0),), 8.0, 4.0), stretched((Hours(10.0, 5.0, 100.0, factor=2.0),), 8.0, 4.0)
        (9.0, 6.0)
    """
    at, left, idle = now, seconds, 0
    while left > 0 and hours:
        speed = math.prod(each.speed(at) for each in hours)
        until = min(each.next(at) for each in hours)
        if left <= (until - at) * speed:
            return at + left / speed - now
        left -= (until - at) * speed
        idle = 0 if speed else idle + 1
        if idle > _MOST:
            raise CompositionError(f"A machine with the hours {list(hours)} is always away: give hours between which it is there.")
        at = until
    return at + left - now
