"""The workers' machines, and what makes some workers or some steps slower than others.

    Fleet((DEVICES["cpu-core"],), (Mixed((1.0, 0.5)), Jitter(0.1), Straggler(worker=3, factor=4.0)))

Paces compose: their slowdowns multiply. Each draws from a stream of its own, so adding one changes no draw of another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from polyrhythm import rng
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import DEVICES, Machine, load


class Pace(Protocol):
    """The factor by which the time of one step of one worker is multiplied."""

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """The factor for the next step of the worker of `rank`; `draws` is this pace's and worker's own stream."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """All workers keep the same time."""

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """Always 1."""
        return 1.0


@dataclass(frozen=True, slots=True)
class Mixed:
    """Workers have different `speeds`, assigned in rotation: 0.5 is half as fast as the device."""

    speeds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.speeds or min(self.speeds) <= 0:
            raise CompositionError(f"Mixed was given the speeds {self.speeds}. Give one or more, all above zero.")

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """The inverse of the worker's speed."""
        return 1.0 / self.speeds[rank % len(self.speeds)]


@dataclass(frozen=True, slots=True)
class Jitter:
    """Every step's time is multiplied by a lognormal factor of mean 1; `sigma` is the deviation of its logarithm."""

    sigma: float

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < math.inf:
            raise CompositionError(f"Jitter was given sigma {self.sigma}. It must be zero or more: 0.1 varies a step by about a tenth.")

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """A draw."""
        return math.exp(self.sigma * draws.standard_normal() - self.sigma**2 / 2)


@dataclass(frozen=True, slots=True)
class Straggler:
    """One `worker` takes `factor` times as long, always."""

    worker: int
    factor: float

    def __post_init__(self) -> None:
        if self.worker < 0 or self.factor <= 0:
            raise CompositionError(
                f"Straggler was given worker {self.worker} and factor {self.factor}. Give a rank and a factor above zero."
            )

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """The factor, for that worker."""
        return self.factor if rank == self.worker else 1.0


@dataclass(frozen=True, slots=True)
class RandomStragglers:
    """Each step of each worker takes `factor` times as long with `probability` (as in Chen et al., 2016, on backup workers)."""

    probability: float
    factor: float

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1 or self.factor <= 0:
            raise CompositionError(
                f"RandomStragglers was given probability {self.probability} and factor {self.factor}. "
                "Give a probability from 0 to 1 and a factor above zero."
            )

    def slowdown(self, rank: int, draws: np.random.Generator) -> float:
        """A draw."""
        return self.factor if draws.random() < self.probability else 1.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """`machines`, assigned to the workers in rotation, and the `paces` that slow them; servers compute on `server`, at full speed.

    Examples:
        >>> fleet = Fleet(paces=(Straggler(worker=1, factor=4.0),))
        >>> fast, slow = (fleet.timer(f"worker/{rank}", seed=0).step_seconds(1e9, 32) for rank in (0, 1))
        >>> slow / fast
        4.0
    """

    machines: tuple[Machine, ...] = (DEVICES["cpu-core"],)
    paces: tuple[Pace, ...] = ()
    server: Machine = DEVICES["cpu-core"]

    def __post_init__(self) -> None:
        if not self.machines:
            raise CompositionError("A fleet was given no machine. Give it at least one device or profile.")

    def timer(self, actor: str, seed: int) -> ComputeTimer:
        """The time of "worker/3" or "server/0" in a run seeded with `seed`."""
        role, _, number = actor.partition("/")
        if role != "worker":
            return ServerTimer(self.server)
        return WorkerTimer(self.machines[int(number) % len(self.machines)], self.paces, int(number), seed)


class ComputeTimer(Protocol):
    """How long one actor computes. Call it once for each piece of work, in order."""

    def step_seconds(self, flops: float, samples: int) -> float:
        """Seconds of the next step: of `flops` counted operations, or as it was measured, whatever its samples; with a new slowdown."""

    def seconds(self, flops: float) -> float:
        """Seconds of `flops` operations outside of steps, with the last step's slowdown; 0 where steps were measured, which include
        them."""

    def merge_seconds(self, contributions: int) -> float:
        """Seconds for merging `contributions`, at full speed, where that was measured; else 0."""


class WorkerTimer:
    """The `machine` of the worker of `rank`, slowed by `paces`, each of which draws from a stream of its own."""

    __slots__ = ("_machine", "_paces", "_rank", "_slowdown", "_step")

    def __init__(self, machine: Machine, paces: Sequence[Pace], rank: int, seed: int) -> None:
        self._machine = machine
        self._paces = [(pace, rng.stream(seed, "device", rank, place)) for place, pace in enumerate(paces)]
        self._rank = rank
        self._slowdown = 1.0
        self._step = -1

    def step_seconds(self, flops: float, samples: int) -> float:
        """As `ComputeTimer`."""
        self._step += 1
        self._slowdown = math.prod(pace.slowdown(self._rank, draws) for pace, draws in self._paces)
        return self._machine.step_seconds(flops, self._step) * self._slowdown

    def seconds(self, flops: float) -> float:
        """As `ComputeTimer`."""
        return self._machine.seconds(flops) * self._slowdown

    def merge_seconds(self, contributions: int) -> float:
        """As `ComputeTimer`."""
        return self._machine.merge_seconds(contributions)


@dataclass(frozen=True, slots=True)
class ServerTimer:
    """A server's machine, at full speed."""

    machine: Machine

    def step_seconds(self, flops: float, samples: int) -> float:
        """Servers take no steps."""
        return 0.0

    def seconds(self, flops: float) -> float:
        """As `ComputeTimer`."""
        return self.machine.seconds(flops)

    def merge_seconds(self, contributions: int) -> float:
        """As `ComputeTimer`."""
        return self.machine.merge_seconds(contributions)


def fleet(given: str | Path | Machine | Fleet) -> Fleet:
    """A fleet from what the user gave: a preset's name, a file, one machine for all workers, or a fleet.

    Servers merge at the measured speed, where there is one.
    """
    if isinstance(given, Fleet):
        return given
    machine = load(given) if isinstance(given, str | Path) else given
    return Fleet((machine,), server=machine) if machine.measured else Fleet((machine,))
