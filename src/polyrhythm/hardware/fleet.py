"""The workers' machines, and the paces that slow some workers or some steps. Users, the command line and the planner make a `Fleet`; the
simulator gives each actor one of its timers.

Fleet((DEVICES["cpu-core"],), (Mixed((1.0, 0.5)), Jitter(0.1), Straggler(worker=3, factor=4.0)))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from polyrhythm.core import streams
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.hardware import devices
from polyrhythm.hardware.device_presets import DEVICES
from polyrhythm.hardware.hours import Hours, stretched
from polyrhythm.hardware.machine_terms import PLAIN, MachineTerms
from polyrhythm.hardware.machines import Machine
from polyrhythm.hardware.paces import Jitter as Jitter
from polyrhythm.hardware.paces import Mixed as Mixed
from polyrhythm.hardware.paces import Pace as Pace
from polyrhythm.hardware.paces import RandomStragglers as RandomStragglers
from polyrhythm.hardware.paces import Straggler as Straggler
from polyrhythm.hardware.paces import Uniform as Uniform


def _never() -> float:
    """A clock that stands at the beginning of the run."""
    return 0.0


@dataclass(frozen=True, slots=True)
@checked
class Fleet:
    """`machines`, assigned to the workers in rotation, and the `paces` that slow them; servers compute on `server`, at full speed.

    `terms` are those on which each of the machines can be had, in the same order; without any, nothing is known of them. Where `places` are
    given, worker w has that place among the machines and for the paces, and not place w: some of the machines, or in another order.

    Examples:
        >>> fleet = Fleet(paces=(Straggler(worker=1, factor=4.0),))
        >>> fast, slow = (fleet.timer(f"worker/{rank}", seed=0).step_seconds(1e9, 32) for rank in (0, 1))
        >>> slow / fast
        4.0
    """

    machines: tuple[Machine, ...] = (DEVICES["cpu-core"],)
    paces: tuple[Pace, ...] = ()
    server: Machine = DEVICES["cpu-core"]
    terms: tuple[MachineTerms, ...] = ()
    places: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.machines:
            raise CompositionError("A fleet was given no machine. Give it at least one device or profile.")
        if self.terms and len(self.terms) != len(self.machines):
            raise CompositionError(
                f"A fleet of {len(self.machines)} machines was given {len(self.terms)} terms: give each machine's, or none."
            )

    def place(self, worker: int) -> int:
        """The place of the worker of this number among the machines."""
        return self.places[worker % len(self.places)] if self.places else worker

    def machine(self, worker: int) -> Machine:
        """The machine of the worker of this number."""
        return self.machines[self.place(worker) % len(self.machines)]

    def terms_of(self, worker: int) -> MachineTerms:
        """The terms of that machine."""
        return self.terms[self.place(worker) % len(self.terms)] if self.terms else PLAIN

    def timer(self, actor: str, seed: int, now: Callable[[], float] = _never) -> ComputeTimer:
        """The time of "worker/3" or "server/0" in a run seeded with `seed`, whose clock is `now`."""
        role, _, number = actor.partition("/")
        if role != "worker":
            return ServerTimer(self.server)
        worker = int(number)
        timer = WorkerTimer(self.machine(worker), self.paces, self.place(worker), seed)
        hours = self.terms_of(worker).hours
        return HoursTimer(timer, hours, now) if hours else timer


class ComputeTimer(Protocol):
    """The compute time of one actor. Call it once for each piece of work, in order."""

    def step_seconds(self, flops: float, samples: int) -> float:
        """Seconds of the next step: of `flops` counted operations, or as it was measured, whatever its samples; with a new slowdown."""

    def seconds(self, flops: float) -> float:
        """Seconds of `flops` operations outside of steps, with the last step's slowdown; 0 where steps were measured, which include
        them."""

    def segment(self, begin: str, end: str) -> float | None:
        """Seconds from one place of the program to the next, with the last step's slowdown; None where that was not measured."""

    def merge_seconds(self, contributions: int) -> float:
        """Seconds for merging `contributions`, at full speed, where that was measured; else 0."""


class WorkerTimer:
    """The `machine` of the worker of `rank`, slowed by `paces`, each of which draws from its own random stream."""

    __slots__ = ("_machine", "_paces", "_rank", "_slowdown", "_step")

    def __init__(self, machine: Machine, paces: Sequence[Pace], rank: int, seed: int) -> None:
        self._machine = machine
        self._paces = [(pace, streams.stream(seed, "device", rank, place)) for place, pace in enumerate(paces)]
        self._rank = rank
        self._slowdown = math.prod(pace.always(rank) for pace in paces)
        self._step = -1

    def step_seconds(self, flops: float, samples: int) -> float:
        self._step += 1
        if self._paces:
            self._slowdown = math.prod(pace.slowdown(self._rank, draws) for pace, draws in self._paces)
        return self._machine.step_seconds(flops, self._step) * self._slowdown

    def seconds(self, flops: float) -> float:
        return self._machine.seconds(flops) * self._slowdown

    def segment(self, begin: str, end: str) -> float | None:
        seconds = self._machine.segment(begin, end)
        return None if seconds is None else seconds * self._slowdown

    def merge_seconds(self, contributions: int) -> float:
        return self._machine.merge_seconds(contributions)


@dataclass(frozen=True, slots=True)
class HoursTimer:
    """The time of a worker whose machine is away, or slow, in some `hours`; `now` is the clock of the run."""

    inner: ComputeTimer
    hours: tuple[Hours, ...]
    now: Callable[[], float]

    def step_seconds(self, flops: float, samples: int) -> float:
        return stretched(self.hours, self.now(), self.inner.step_seconds(flops, samples))

    def seconds(self, flops: float) -> float:
        return stretched(self.hours, self.now(), self.inner.seconds(flops))

    def segment(self, begin: str, end: str) -> float | None:
        seconds = self.inner.segment(begin, end)
        return None if seconds is None else stretched(self.hours, self.now(), seconds)

    def merge_seconds(self, contributions: int) -> float:
        return stretched(self.hours, self.now(), self.inner.merge_seconds(contributions))


@dataclass(frozen=True, slots=True)
class ServerTimer:
    """A server's machine, at full speed."""

    machine: Machine

    def step_seconds(self, flops: float, samples: int) -> float:
        """Servers take no steps."""
        return 0.0

    def seconds(self, flops: float) -> float:
        return self.machine.seconds(flops)

    def segment(self, begin: str, end: str) -> None:
        """Servers have none."""
        return

    def merge_seconds(self, contributions: int) -> float:
        return self.machine.merge_seconds(contributions)


def fleet(given: str | Path | Machine | Fleet) -> Fleet:
    """A fleet from what the user gave: a preset's name, a file, one machine for all workers, or a fleet.

    Servers merge at the measured speed, where there is one. Raises `CompositionError`s for files that cannot be used.
    """
    if isinstance(given, Fleet):
        return given
    if isinstance(given, str | Path):
        machines, paces, server, terms = devices.load_all(given)
    else:
        machines, paces, server, terms = (given,), (), None, ()
    serves = server or (machines[0] if machines[0].measured else DEVICES["cpu-core"])
    return Fleet(machines, paces, serves, terms if any(each != PLAIN for each in terms) else ())
