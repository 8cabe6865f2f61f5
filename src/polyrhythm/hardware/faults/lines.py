"""Faults of connections, as values: cuts and partitions, lost messages, lost and late datagrams.

Each begins at the time `at`, in seconds since the run began, or after the step `step` of the first worker. Places are actors, "host/3" or
"site/Tokyo"; in real processes actors alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults.checks import FIRST, refuse_moment
from polyrhythm.hardware.faults.crew_names import Newcomers


@dataclass(frozen=True, slots=True)
@checked
class Disconnect:
    """No byte flows between `a` and `b`, in either direction, for `duration` from `at`; then the bytes flow on. Nothing is lost."""

    a: str
    b: str
    at: float | None = None
    duration: float = math.inf
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step, self.duration)

    @property
    def what(self) -> str:
        return f"cut off from {self.b} for {self.duration:.9g} s"


@dataclass(frozen=True, slots=True)
@checked
class Partition:
    """The network falls apart into `sides`, tuples of places: a `Disconnect` between any two places of different sides."""

    sides: tuple[tuple[str, ...], ...]
    at: float | None = None
    duration: float = math.inf
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, self.at, self.step, self.duration)
        if not isinstance(self.sides, tuple) or not all(isinstance(side, tuple) for side in self.sides):
            raise CompositionError(f"{self} needs sides as tuples of names: give such as sides=(('worker/0',), ('worker/1', 'worker/2')).")
        names = [name for side in self.sides for name in side]
        if len(self.sides) < 2 or not all(self.sides) or len(set(names)) < len(names):
            raise CompositionError(f"{self} has not two sides or more, or a place on two of them: give each place once.")

    def expand(self, seed: int, place: int, actors: Sequence[str], newcomers: Newcomers) -> list[Disconnect]:
        """The cuts, in the order of the sides."""
        pairs = [pair for one, other in combinations(self.sides, 2) for pair in product(one, other)]
        return [Disconnect(a, b, self.at, self.duration, self.step) for a, b in pairs]


@dataclass(frozen=True, slots=True)
@checked
class Drop:
    """Each message is lost with `probability`, between two places or, without `between`, anywhere, for `duration`.

    Without `at` and `step` it begins with the run. Only for systems that tolerate loss: the others wait for a lost message for ever, and
    the deadlock is reported.
    """

    probability: float
    between: tuple[str, str] | None = None
    at: float | None = None
    duration: float = math.inf
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, 0.0 if self.at is None and self.step is None else self.at, self.step, self.duration)
        _refuse_between(self, self.between)
        if not 0 <= self.probability <= 1:
            raise CompositionError(f"{self} has the probability {self.probability}. Give one from 0 to 1.")

    @property
    def what(self) -> str:
        return f"messages are lost with probability {self.probability:.9g} for {self.duration:.9g} s"


@dataclass(frozen=True, slots=True)
@checked
class DatagramFaults:
    """Faults of datagrams, which nobody sends again: each is lost with probability `loss`.

    Of the others each has a copy with probability `duplicated`, and is itself `delay` seconds late with probability `late`, so that later
    ones overtake it; a copy is always so late. It is about datagrams between two places or, without `between`, all, and only about those
    whose topic ends in `topic`, for `duration`, from the beginning where there is no `at` and no `step`. Messages, as all systems but
    dogwild send, are not affected.
    """

    loss: float = 0.0
    duplicated: float = 0.0
    late: float = 0.0
    delay: float = 0.05
    between: tuple[str, str] | None = None
    topic: str = ""
    at: float | None = None
    duration: float = math.inf
    step: int | None = None

    def __post_init__(self) -> None:
        refuse_moment(self, 0.0 if self.at is None and self.step is None else self.at, self.step, self.duration)
        _refuse_between(self, self.between)
        for name, value in (("loss", self.loss), ("duplicated", self.duplicated), ("late", self.late)):
            if not 0 <= value <= 1:
                raise CompositionError(f"DatagramFaults({name}={value}) is no probability. Give one from 0 to 1.")
        if not 0 < self.delay < math.inf:
            raise CompositionError(f"DatagramFaults(delay={self.delay}) is not the time by which a datagram is late. Give seconds above 0.")

    @property
    def what(self) -> str:
        return f"datagrams are lost with probability {self.loss:.9g} for {self.duration:.9g} s"


def _refuse_between(fault: object, between: tuple[str, str] | None) -> None:
    """Refuse what is no pair, and "first" as a place whose messages are lost: who that is changes, the stream of a connection does not."""
    if between is not None and (not isinstance(between, tuple) or len(between) != 2):
        raise CompositionError(f"{fault} is not about a pair of places: give such as between=('worker/0', 'worker/1').")
    if FIRST in (between or ()):
        raise CompositionError(f"{fault} is about the connections of 'first', which is another worker after a loss: name the worker.")
