"""Prices that change with the hour of the day: a rate for the night, dear hours of electricity, spot prices as they usually go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from polyrhythm.core import units
from polyrhythm.errors import CompositionError

DAY = 86400.0


class PriceHours(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"seconds": "for"}):
    """From the hour `at` of each day on, for so many `seconds`, an hour of a worker costs `worker_hour`. They may go beyond midnight.

    Examples:
        >>> night = PriceHours("22 h", "9 h", 0.1)
        >>> night.covered(0, 86400) / 3600, night.covered(21 * 3600, 23 * 3600) / 3600
        (9.0, 1.0)
    """

    at: str | float
    seconds: str | float
    worker_hour: float

    def __post_init__(self) -> None:
        at, length = self.window
        if not (0 <= at < DAY and 0 < length < DAY and 0 <= self.worker_hour < math.inf):
            raise CompositionError(
                f"{self} cannot be: give at (from 0 to less than 24 h), for (more than 0 and less than 24 h) and a worker_hour of 0 or "
                "more."
            )

    @property
    def window(self) -> tuple[float, float]:
        """The hour of the day at which they begin, and how long they are, in seconds."""
        return units.duration(self.at), units.duration(self.seconds)

    def covered(self, begin: float, end: float) -> float:
        """How many of the seconds between two moments are in them; a day begins at 0."""
        return min(max(0.0, self._until(end) - self._until(begin)), end - begin)

    def _until(self, moment: float) -> float:
        at, length = self.window
        days = math.floor((moment - at) / DAY)
        return days * length + min(moment - at - days * DAY, length)


def refuse_overlapping(prices: Sequence[PriceHours]) -> None:
    """Raise CompositionError where two prices hold at one time."""
    ordered = sorted(prices, key=lambda each: each.window)
    following = [*pairwise(ordered), *([(ordered[-1], ordered[0])] if len(ordered) > 1 else [])]
    for before, after in following:
        gap = (after.window[0] - before.window[0]) % DAY
        if gap < before.window[1]:
            raise CompositionError(f"{before} and {after} are two prices of the same hours: let each end before the next begins.")
