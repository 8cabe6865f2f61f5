"""Where a number falls on an axis, and which numbers are written beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MOST_TICKS = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """From `low` to `high`, linear or logarithmic; places run from 0 to 1."""

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where `value` falls, 0 at `low`."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers within the axis, at most about six."""
        if self.log:
            return self._decades()
        step = _round_step((self.high - self.low) / _MOST_TICKS)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [float(f"{index * step:.12g}") for index in range(first, last + 1)]

    def _decades(self) -> list[float]:
        low, high = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        powers = range(low, high + 1, max(1, (high - low) // _MOST_TICKS + 1))
        ticks = [10.0**power for power in powers]
        if len(ticks) >= 3:
            return ticks
        return [m * 10.0**p for p in range(low - 1, high + 1) for m in (1, 2, 5) if self.low <= m * 10.0**p <= self.high * (1 + 1e-9)]


def axis_for(values: Sequence[float], log: bool = False, from_zero: bool = False) -> Axis:
    """An axis that shows all of `values`, with a little air."""
    if not values:
        return Axis(0.0, 1.0)
    low, high = (min(0.0, *values) if from_zero else min(values)), max(values)
    if log:
        return Axis(low / 1.15, high * 1.15, log=True)
    air = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return Axis(low if from_zero else low - air, high + air)


def written(ticks: Sequence[float], show: Callable[[float], str]) -> list[str]:
    """The ticks as text, 0 without a unit."""
    return [show(tick) if tick else "0" for tick in ticks]


def _round_step(step: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(step))
    return next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= step * (1 - 1e-9))
