"""Rules that draw faults at a rate from a seed: crashes, stalls, cuts and preemptions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from polyrhythm.core.settings import checked
from polyrhythm.core.streams import stream
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults.actors import Crash, Join, Leave, Stall
from polyrhythm.hardware.faults.checks import of_role, refuse_rates, refuse_strangers, refuse_times
from polyrhythm.hardware.faults.crew_names import CrewNames, Newcomers
from polyrhythm.hardware.faults.lines import Disconnect


@dataclass(frozen=True, slots=True)
@checked
class RandomCrashes:
    """Each actor of the role `among` crashes at `rate_per_hour` (a Poisson process, hence once at most) until `horizon`.

    With `rate_per_step` in its place it crashes after steps, and `horizon` is a number of steps.
    """

    rate_per_hour: float | None = None
    horizon: float = 3600.0
    among: str = "worker"
    rate_per_step: float | None = None

    def __post_init__(self) -> None:
        refuse_rates(self, self.rate_per_hour, self.rate_per_step, self.horizon)

    def expand(self, seed: int, place: int, actors: Sequence[str], newcomers: Newcomers) -> list[Crash]:
        """The crashes that the seed gives."""
        moments = {actor: _moments(self, 0.0, (seed, "crash", place, actor)) for actor in of_role(actors, self.among)}
        return [Crash(actor, *found[0]) for actor, found in moments.items() if found]


@dataclass(frozen=True, slots=True)
@checked
class RandomStalls:
    """Each actor of the role `among` stalls at `rate_per_hour`, each time for `duration`, until `horizon`; or at `rate_per_step`."""

    rate_per_hour: float | None = None
    duration: float = 1.0
    horizon: float = 3600.0
    among: str = "worker"
    rate_per_step: float | None = None

    def __post_init__(self) -> None:
        refuse_rates(self, self.rate_per_hour, self.rate_per_step, self.horizon)
        refuse_times(self, 0.0, self.duration)

    def expand(self, seed: int, place: int, actors: Sequence[str], newcomers: Newcomers) -> list[Stall]:
        """The stalls that the seed gives; they do not overlap."""
        return [
            Stall(actor, at, self.duration, step)
            for actor in of_role(actors, self.among)
            for at, step in _moments(self, self.duration, (seed, "stall", place, actor))
        ]


@dataclass(frozen=True, slots=True)
@checked
class RandomCuts:
    """`a` and `b` are cut off from each other at `rate_per_hour`, each time for `duration`, until `horizon`; or at `rate_per_step`."""

    a: str
    b: str
    rate_per_hour: float | None = None
    duration: float = 1.0
    horizon: float = 3600.0
    rate_per_step: float | None = None

    def __post_init__(self) -> None:
        refuse_rates(self, self.rate_per_hour, self.rate_per_step, self.horizon)
        refuse_times(self, 0.0, self.duration)

    def expand(self, seed: int, place: int, actors: Sequence[str], newcomers: Newcomers) -> list[Disconnect]:
        """The cuts that the seed gives; they do not overlap."""
        refuse_strangers(actors, *(name for name in (self.a, self.b) if not name.startswith(("host/", "site/"))))
        moments = _moments(self, self.duration, (seed, "cut", place, f"{self.a} {self.b}"))
        return [Disconnect(self.a, self.b, at, self.duration, step) for at, step in moments]


@dataclass(frozen=True, slots=True)
@checked
class Preemptions:
    """Each actor of the role `among` is preempted at `rate_per_hour` with `notice`, and replaced `back_after` seconds after it is gone.

    The times are exponential. Without `notice` it crashes; with `back_after` at infinity nobody comes back. Newcomers are preempted too.
    """

    rate_per_hour: float
    notice: float = 0.0
    back_after: float = math.inf
    horizon: float = 3600.0
    among: str = "worker"

    def __post_init__(self) -> None:
        refuse_rates(self, self.rate_per_hour, None, self.horizon)
        if not 0 <= self.notice < math.inf or not self.back_after >= 0:
            raise CompositionError(f"{self} has an impossible notice or time to come back: give seconds of zero or more.")
        if self.back_after < math.inf and self.among != "worker":
            raise CompositionError(f"{self} is among {self.among!r}, and only workers come back: leave out back_after, or give 'worker'.")

    def expand(self, seed: int, place: int, actors: Sequence[str], newcomers: Newcomers) -> list[Crash | Leave | Join]:
        """The crashes or notices, and who comes back, in the order of time; newcomers have the names that runs give them (`next_name`)."""
        if self.rate_per_hour == 0:
            return []
        due = [(self._after(0.0, seed, place, actor), actor) for actor in of_role(actors, self.among)]
        coming: list[float] = []
        heapify(due)
        found: list[Crash | Leave | Join] = []
        crew = CrewNames(newcomers, actors if self.among == "worker" else ())
        while due or coming:
            if coming and (not due or coming[0] <= due[0][0]):
                at = heappop(coming)
                found.append(Join(at))
                name = crew.join()
            else:
                at, actor = heappop(due)
                if at >= self.horizon:
                    continue
                found.append(Leave(actor, at, self.notice) if self.notice else Crash(actor, at))
                name = crew.lose(actor) if not self.notice else None
                crew.leave(actor)
                if self.back_after < math.inf:
                    heappush(coming, at + self.notice + self.back_after)
            if name is not None:
                heappush(due, (self._after(at, seed, place, name), name))
        return found

    def _after(self, at: float, seed: int, place: int, actor: str) -> float:
        return at + float(stream(seed, "faults", "preemption", place, actor).exponential(3600 / self.rate_per_hour))


def _moments(
    rule: RandomCrashes | RandomStalls | RandomCuts, rest: float, path: tuple[int, str, int, str]
) -> list[tuple[float | None, int | None]]:
    """The times, or the steps, of a Poisson process until the rule's horizon; after an event in time it pauses for `rest` seconds."""
    draws = stream(path[0], "faults", *path[1:])
    if rule.rate_per_step is not None:
        steps = {math.ceil(step) for step in _times(draws, 1.0, rule.rate_per_step, rule.horizon, 0.0)}
        return [(None, step) for step in sorted(steps) if step]
    assert rule.rate_per_hour is not None
    return [(at, None) for at in _times(draws, 3600, rule.rate_per_hour, rule.horizon, rest)]


def _times(draws: np.random.Generator, unit: float, rate: float, horizon: float, rest: float) -> list[float]:
    """The times until `horizon` of events at `rate` in each `unit`."""
    times: list[float] = []
    if rate == 0:
        return times
    at = draws.exponential(unit / rate)
    while at < horizon:
        times.append(at)
        at += rest + draws.exponential(unit / rate)
    return times
