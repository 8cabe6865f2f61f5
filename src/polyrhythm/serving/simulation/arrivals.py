"""Arrival processes: the moments at which the requests of a session come."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from polyrhythm.core.settings import checked
from polyrhythm.core.typed_files import unreadable
from polyrhythm.errors import CompositionError

Distances = Callable[[int], npt.NDArray[np.float64]]


class ArrivalProcess(Protocol):
    """The moments of requests; a generator sends each at its moment, whatever has become of those before (an open loop)."""

    def times(self, seconds: float, draws: np.random.Generator) -> list[float]:
        """The moments from 0 up to `seconds`, in order."""


@dataclass(frozen=True, slots=True)
@checked
class EvenArrivals:
    """One request every 1 / `rate` seconds."""

    rate: float

    def __post_init__(self) -> None:
        _positive(self, self.rate)

    def times(self, seconds: float, draws: np.random.Generator) -> list[float]:
        """Evenly spaced moments, from a random first one."""
        first = float(draws.random())
        return [(first + index) / self.rate for index in range(max(0, math.ceil(seconds * self.rate - first)))]


@dataclass(frozen=True, slots=True)
@checked
class PoissonArrivals:
    """Independent requests, `rate` per second on average."""

    rate: float

    def __post_init__(self) -> None:
        _positive(self, self.rate)

    def times(self, seconds: float, draws: np.random.Generator) -> list[float]:
        """Moments with exponential distances."""
        return _renewal(seconds, self.rate, _exponential(self.rate, draws))


@dataclass(frozen=True, slots=True)
@checked
class BurstyArrivals:
    """Requests in bursts: gamma distances with a squared coefficient of variation of `variation`; 1 would be Poisson's."""

    rate: float
    variation: float = 4.0

    def __post_init__(self) -> None:
        _positive(self, self.rate, self.variation)

    def times(self, seconds: float, draws: np.random.Generator) -> list[float]:
        """Moments with gamma distances."""
        shape = 1 / self.variation
        return _renewal(seconds, self.rate, lambda count: draws.gamma(shape, 1 / (self.rate * shape), count))


@dataclass(frozen=True, slots=True)
@checked
class SteppedArrivals:
    """Poisson's arrivals whose rate changes: from each moment of `steps` on, in seconds, the rate beside it."""

    steps: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        moments = [moment for moment, _ in self.steps]
        if not moments or moments[0] != 0 or moments != sorted(moments) or not all(rate >= 0 for _, rate in self.steps):
            raise CompositionError(
                f"SteppedArrivals(steps={self.steps}) is no course of rates: give pairs of seconds, from 0 and rising, and rates from 0."
            )

    def times(self, seconds: float, draws: np.random.Generator) -> list[float]:
        """Moments whose distances are exponential with the rate of their time."""
        made: list[float] = []
        ends = [*(moment for moment, _ in self.steps[1:]), math.inf]
        for (begin, rate), end in zip(self.steps, ends, strict=True):
            last = min(end, seconds)
            if rate > 0 and begin < last:
                part = _renewal(last - begin, rate, _exponential(rate, draws))
                made += [begin + each for each in part]
        return made


@dataclass(frozen=True, slots=True)
@checked
class RecordedArrivals:
    """Requests at recorded moments, in seconds from the begin."""

    moments: tuple[float, ...]

    def times(self, seconds: float, draws: np.random.Generator) -> list[float]:
        """The recorded moments, as far as they lie in time."""
        return [moment for moment in sorted(self.moments) if 0 <= moment < seconds]


def read_trace(path: str | Path) -> dict[str, RecordedArrivals]:
    """The arrivals of each session in a CSV file with the columns `seconds` and `session`. Raises CompositionError for other files."""
    moments: dict[str, list[float]] = {}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                moments.setdefault(row["session"], []).append(float(row["seconds"]))
    except OSError as problem:
        raise unreadable("trace", Path(path), problem, "Give a CSV file.") from problem
    except (KeyError, TypeError, ValueError) as problem:
        raise CompositionError(
            f"The trace {str(path)!r} cannot be used: {problem}. It needs the columns seconds and session, and a number in the first."
        ) from problem
    return {session: RecordedArrivals(tuple(each)) for session, each in moments.items()}


def poisson(rates: Mapping[str, float]) -> dict[str, ArrivalProcess]:
    """Poisson's arrivals for each session with a rate above zero."""
    return {session: PoissonArrivals(rate) for session, rate in rates.items() if rate > 0}


def _positive(piece: object, *numbers: float) -> None:
    if not all(0 < number < math.inf for number in numbers):
        raise CompositionError(f"{piece} cannot come: rates and variations must be above zero and finite.")


def _renewal(seconds: float, rate: float, distances: Distances) -> list[float]:
    """Moments whose distances are drawn in blocks, so that the same generator gives the same moments."""
    made: list[float] = []
    at, block = 0.0, max(16, int(seconds * rate * 1.2))
    while at < seconds:
        steps = (at + np.cumsum(distances(block))).tolist()
        made += [moment for moment in steps if moment < seconds]
        at = steps[-1]
    return made


def _exponential(rate: float, draws: np.random.Generator) -> Distances:
    return lambda count: draws.exponential(1 / rate, count)
