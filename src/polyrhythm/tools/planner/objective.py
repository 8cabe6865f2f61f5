"""The objectives of a plan: time, bytes, money or energy until the target. A plan request names one, and findings compare runs by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.price_hours import DAY, PriceHours
from polyrhythm.tools.planner.products import product

_HOUR = 3600.0
_GIGABYTE = 1e9
TIME = "time"
_WATTS = 100.0
"""The power of a machine of which nothing else is known."""


@dataclass(frozen=True, slots=True)
@checked
class Prices:
    """The prices of machines: `worker_hour` of one worker and `gigabyte` of traffic, in one currency; `watts` is the power of a worker.

    Without `watts` each machine has those that it says it has, or 100. `changing` are hours of the day in which a worker hour costs so much
    more, or less, than that, and `start` the time of the day at which a run begins, in seconds.
    """

    worker_hour: float = 0.0
    gigabyte: float = 0.0
    watts: float | None = None
    changing: tuple[tuple[PriceHours, float], ...] = ()
    start: float = 0.0

    def __post_init__(self) -> None:
        if not all(0 <= each < math.inf for each in (self.worker_hour, self.gigabyte, self.watts or 0.0)):
            raise CompositionError(f"{self!r} cannot be: prices and watts are numbers of 0 or more.")
        if not 0 <= self.start < DAY:
            raise CompositionError(
                f"A start at {self.start / _HOUR:g} h is no time of the day: give one from 0 h to below 24 h, such as 20h."
            )

    @property
    def given(self) -> bool:
        """True if anything has a price."""
        return bool(self.worker_hour or self.gigabyte or self.changing)

    def worker(self, seconds: float) -> float:
        """The price of a worker for so many seconds from the start."""
        if seconds == math.inf:
            day = self.worker(DAY)
            return math.inf if day > 0 else 0.0
        more = sum(extra * hours.covered(self.start, self.start + seconds) for hours, extra in self.changing)
        return (seconds * self.worker_hour + more) / _HOUR

    def power(self, own: float | None = None) -> float:
        """The watts of a worker whose machine has its `own`."""
        return next(each for each in (self.watts, own, _WATTS) if each is not None)


@dataclass(frozen=True, slots=True)
class Spent:
    """The resources that a run has used so far: virtual seconds, bytes sent by all, and the machines that it holds."""

    seconds: float
    nbytes: float
    workers: int

    def money(self, prices: Prices) -> float:
        """The cost in the currency of `prices`."""
        return self.workers * prices.worker(self.seconds) + product(self.nbytes / _GIGABYTE, prices.gigabyte)

    def energy(self, prices: Prices) -> float:
        """The energy in joules, at the prices' watts."""
        return product(self.workers, self.seconds, prices.power())


Cost = Callable[[Spent, Prices], float]

OBJECTIVES: Mapping[str, Cost] = {
    TIME: lambda spent, prices: spent.seconds,
    "bytes": lambda spent, prices: spent.nbytes,
    "money": lambda spent, prices: spent.money(prices),
    "energy": lambda spent, prices: spent.energy(prices),
}


@dataclass(frozen=True, slots=True)
class Objective:
    """One of OBJECTIVES by name, at some prices; `priced` where machines or lines have prices of their own.

    Raises UnknownNameError, and CompositionError for money without a price.
    """

    name: str = "time"
    prices: Prices = Prices()
    priced: bool = False

    def __post_init__(self) -> None:
        if self.name not in OBJECTIVES:
            raise unknown("objective", self.name, OBJECTIVES)
        if self.name == "money" and not self.priced and not self.prices.given:
            raise CompositionError("The objective is money, and nothing has a price: give --worker-hour or --gigabyte.")

    def cost(self, spent: Spent) -> float:
        """The quantity to minimize; it never falls during a run. What never ends costs infinitely much, also where nothing has a price."""
        return OBJECTIVES[self.name](spent, self.prices) if spent.seconds < math.inf else math.inf
