"""Faults as values, which the simulator interprets.

    schedule([Crash("worker/3", at=40), Cut("site/Tokyo", "site/Seoul", at=10, duration=5), RandomStalls(6, duration=2)], seed, actors)

Times and durations are in seconds of virtual time.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from polyrhythm.core.settings import checked
from polyrhythm.core.streams import stream
from polyrhythm.errors import CompositionError, UnknownNameError, unknown


@dataclass(frozen=True, slots=True)
@checked
class Crash:
    """`actor` crashes at time `at` and is not replaced; messages that had not left it completely are lost."""

    actor: str
    at: float

    def __post_init__(self) -> None:
        _refuse_times(self, self.at, 1.0)

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        _refuse_strangers(actors, self.actor)
        return [self]


@dataclass(frozen=True, slots=True)
@checked
class Stall:
    """`actor` does nothing for `duration` from `at` on, and then resumes; what it had sent arrives."""

    actor: str
    at: float
    duration: float

    def __post_init__(self) -> None:
        _refuse_times(self, self.at, self.duration)
        if self.duration == math.inf:
            raise CompositionError(f"{self} would never end. Give finite seconds, or use a Crash.")

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        _refuse_strangers(actors, self.actor)
        return [self]


@dataclass(frozen=True, slots=True)
@checked
class Cut:
    """No byte flows between `a` and `b`, in either direction, for `duration` from `at`; then the bytes flow on. Nothing is lost.

    Each is an actor, "host/3" or "site/Tokyo".
    """

    a: str
    b: str
    at: float
    duration: float

    def __post_init__(self) -> None:
        _refuse_times(self, self.at, self.duration)

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        _refuse_strangers(actors, *_actors(self.a, self.b))
        return [self]


@dataclass(frozen=True, slots=True)
@checked
class Drop:
    """Each message is lost with `probability`, between two actors or, without `between`, anywhere, for `duration` from `at`.

    Only for systems that tolerate loss: the others wait for a lost message for ever, and the deadlock is reported.
    """

    probability: float
    between: tuple[str, str] | None = None
    at: float = 0.0
    duration: float = math.inf

    def __post_init__(self) -> None:
        _refuse_times(self, self.at, self.duration)
        if not 0 <= self.probability <= 1:
            raise CompositionError(f"{self} has the probability {self.probability}. Give one from 0 to 1.")

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        _refuse_strangers(actors, *_actors(*(self.between or ())))
        return [self]


@dataclass(frozen=True, slots=True)
@checked
class DatagramFaults:
    """Faults of datagrams, which nobody sends again: each is lost with probability `loss`.

    Of the others each has a copy with probability `duplicated`, and is itself `delay` seconds late with probability `late`, so that later
    ones overtake it; a copy is always so late. It is about datagrams between two actors or, without `between`, all, and only about those
    whose topic ends in `topic`, for `duration` from `at`. Messages, as all systems but dogwild send, are not affected.
    """

    loss: float = 0.0
    duplicated: float = 0.0
    late: float = 0.0
    delay: float = 0.05
    between: tuple[str, str] | None = None
    topic: str = ""
    at: float = 0.0
    duration: float = math.inf

    def __post_init__(self) -> None:
        _refuse_times(self, self.at, self.duration)
        for name, value in (("loss", self.loss), ("duplicated", self.duplicated), ("late", self.late)):
            if not 0 <= value <= 1:
                raise CompositionError(f"DatagramFaults({name}={value}) is no probability. Give one from 0 to 1.")
        if not 0 < self.delay < math.inf:
            raise CompositionError(f"DatagramFaults(delay={self.delay}) is not the time by which a datagram is late. Give seconds above 0.")

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        _refuse_strangers(actors, *_actors(*(self.between or ())))
        return [self]


Fault = Crash | Stall | Cut | Drop | DatagramFaults


class FaultSource(Protocol):
    """A fault, or a rule that makes faults."""

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        """The faults among `actors`; `place` in the list of faults names the random stream."""


@dataclass(frozen=True, slots=True)
@checked
class RandomCrashes:
    """Each actor of the role `among` crashes at `rate_per_hour` (a Poisson process, hence once at most) until `horizon`."""

    rate_per_hour: float
    horizon: float = 3600.0
    among: str = "worker"

    def __post_init__(self) -> None:
        _refuse_rate(self, self.rate_per_hour, self.horizon)

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        """The crashes that the seed gives."""
        chosen = _of_role(actors, self.among)
        times = {actor: _times(self.rate_per_hour, self.horizon, 0.0, (seed, "crash", place, actor)) for actor in chosen}
        return [Crash(actor, found[0]) for actor, found in times.items() if found]


@dataclass(frozen=True, slots=True)
@checked
class RandomStalls:
    """Each actor of the role `among` stalls at `rate_per_hour`, each time for `duration`, until `horizon`."""

    rate_per_hour: float
    duration: float
    horizon: float = 3600.0
    among: str = "worker"

    def __post_init__(self) -> None:
        _refuse_rate(self, self.rate_per_hour, self.horizon)
        _refuse_times(self, 0.0, self.duration)

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        """The stalls that the seed gives; they do not overlap."""
        return [
            Stall(actor, at, self.duration)
            for actor in _of_role(actors, self.among)
            for at in _times(self.rate_per_hour, self.horizon, self.duration, (seed, "stall", place, actor))
        ]


@dataclass(frozen=True, slots=True)
@checked
class RandomCuts:
    """`a` and `b` are cut off from each other at `rate_per_hour`, each time for `duration`, until `horizon`."""

    a: str
    b: str
    rate_per_hour: float
    duration: float
    horizon: float = 3600.0

    def __post_init__(self) -> None:
        _refuse_rate(self, self.rate_per_hour, self.horizon)
        _refuse_times(self, 0.0, self.duration)

    def expand(self, seed: int, place: int, actors: Sequence[str]) -> list[Fault]:
        """The cuts that the seed gives; they do not overlap."""
        _refuse_strangers(actors, *_actors(self.a, self.b))
        times = _times(self.rate_per_hour, self.horizon, self.duration, (seed, "cut", place, f"{self.a} {self.b}"))
        return [Cut(self.a, self.b, at, self.duration) for at in times]


def schedule(faults: Sequence[FaultSource], seed: int, actors: Sequence[str]) -> list[Fault]:
    """All faults among `actors` by time; those of one instant in the order given. Raises `UnknownNameError` for an actor that does not
    exist."""
    found = [fault for place, source in enumerate(faults) for fault in source.expand(seed, place, actors)]
    return sorted(found, key=lambda fault: fault.at)


def remaining(faults: Sequence[Fault], began: float) -> list[Fault]:
    """The faults that a run which begins at `began` still meets; of one that lasts, the rest of its duration."""
    left = list[Fault]()
    for fault in faults:
        if fault.at >= began:
            left.append(fault)
        elif not isinstance(fault, Crash) and fault.at + fault.duration > began:
            left.append(replace(fault, at=began, duration=fault.at + fault.duration - began))
    return left


def _times(rate_per_hour: float, horizon: float, rest: float, path: tuple[int, str, int, str]) -> list[float]:
    """The times of a Poisson process that pauses for `rest` seconds after each event."""
    if rate_per_hour == 0:
        return []
    draws = stream(path[0], "faults", *path[1:])
    times = []
    at = draws.exponential(3600 / rate_per_hour)
    while at < horizon:
        times.append(at)
        at += rest + draws.exponential(3600 / rate_per_hour)
    return times


def _of_role(actors: Sequence[str], role: str) -> list[str]:
    roles = {actor.partition("/")[0] for actor in actors}
    if role not in roles:
        raise unknown("role", role, roles)
    return [actor for actor in actors if actor.partition("/")[0] == role]


def _actors(*names: str) -> list[str]:
    """The faults that name no host or site: only a network has these."""
    return [name for name in names if not name.startswith(("host/", "site/"))]


def _refuse_strangers(actors: Sequence[str], *names: str) -> None:
    for name in names:
        if name not in actors:
            if len(actors) > 8 and not difflib.get_close_matches(name, actors, n=1):  # a list of a thousand names would not help
                raise UnknownNameError(f"No actor is called {name!r}. There are {len(actors)}, from {actors[0]} to {actors[-1]}.")
            raise unknown("actor", name, actors)


def _refuse_times(fault: object, at: float, duration: float) -> None:
    if not 0 <= at < math.inf or not duration > 0:
        raise CompositionError(f"{fault} has impossible times. It must start at zero or later and last longer than nothing.")


def _refuse_rate(fault: object, rate_per_hour: float, horizon: float) -> None:
    if not 0 <= rate_per_hour < math.inf or not 0 < horizon < math.inf:
        raise CompositionError(f"{fault} has an impossible rate or horizon. Give a rate of zero or more and finite seconds.")
