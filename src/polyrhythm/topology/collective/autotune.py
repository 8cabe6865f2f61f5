"""Tensor fusion whose settings are tuned during the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polyrhythm.core.collectives.broadcast import broadcast_message
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.settings import checked
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.collective.gaussian_process import Array, GaussianProcess, expected_improvement
from polyrhythm.topology.collective.tuning import Knobs, Tuner


@dataclass(frozen=True, slots=True)
@checked
class Autotune:
    """Bayesian optimisation of the fusion buffer and the cycle, by bytes summed per second (Horovod's autotuning, 2019).

    A sample is `steps` steps with one pair of settings. After `warmup` samples, spread over the ranges, each next pair is the one of the
    greatest expected improvement under a Gaussian process, whose `noise` is a part of the deviation of the scores; after `samples` the best
    by its mean stays. Worker 0 decides and tells all, after the same step. Buffers between the two `nbytes` and cycles between the two
    `seconds` are searched, by their logarithms; a buffer of 0 bytes, which fuses nothing, is not tried.
    """

    warmup: int = 5
    steps: int = 20
    samples: int = 40
    noise: float = 0.75
    nbytes: tuple[int, int] = (64 * 2**10, 64 * 2**20)
    seconds: tuple[float, float] = (0.0005, 0.05)

    def __post_init__(self) -> None:
        if not 1 <= self.warmup <= self.samples or self.steps < 1 or not self.noise > 0:
            raise CompositionError(
                f"{self} cannot look for anything: give 1 step or more, a warm-up of 1 to `samples` samples, and a noise above 0."
            )
        for low, high in (self.nbytes, self.seconds):
            if not 0 < low < high:
                raise CompositionError(f"{self} has an empty range: give two numbers above 0, the smaller first.")

    def tuner(self, knobs: Knobs, port: Port, group: Group) -> Tuner:
        return _Search(self, knobs, port, group)

    def point(self, knobs: Knobs) -> Array:
        """The settings as a point of the unit square."""
        found = [np.log(value / low) / np.log(high / low) for value, (low, high) in zip(knobs, (self.nbytes, self.seconds), strict=True)]
        return np.asarray(np.clip(found, 0.0, 1.0), dtype=np.float64)

    def knobs(self, point: Array) -> Knobs:
        """The settings at a point of the unit square."""
        (small, large), (short, long) = self.nbytes, self.seconds
        return Knobs(round(small * (large / small) ** float(point[0])), short * (long / short) ** float(point[1]))


_LENGTH = 0.3
"""The length scale of the kernel, in the unit square."""
_CANDIDATES = 33
"""Grid points in each direction; the next point is chosen from the grid."""


class _Search:
    """`points` and `scores` are the samples so far, at worker 0 alone; `taken` counts the steps of the present one, at all workers."""

    def __init__(self, settings: Autotune, knobs: Knobs, port: Port, group: Group) -> None:
        self.settings = settings
        self.knobs = knobs
        self.port = port
        self.group = group
        self.points: list[list[float]] = []
        self.scores: list[float] = []
        self.samples = 0
        self.taken = 0
        self.nbytes = 0
        self.since = 0.0

    async def step(self, nbytes: int) -> None:
        """Count a step; after the last one of a sample all workers take the next settings."""
        if self.samples == self.settings.samples:
            return
        if self.since == 0.0:  # the first step pays for one-time costs: names, connections, an optimizer's state
            self.since = self.port.now()
            return
        self.taken, self.nbytes = self.taken + 1, self.nbytes + nbytes
        if self.taken < self.settings.steps:
            return
        self.samples += 1
        if self.group.is_first:
            self._score()
            self.knobs = self._next()
        received = await broadcast_message(self.port, self.group, Message(f"tuned/{self.samples}", numbers=tuple(map(float, self.knobs))))
        self.knobs = Knobs(int(received.numbers[0]), received.numbers[1])
        self.taken, self.nbytes, self.since = 0, 0, self.port.now()

    def _score(self) -> None:
        self.points.append(self.settings.point(self.knobs).tolist())
        self.scores.append(self.nbytes / max(1e-9, self.port.now() - self.since))

    def _next(self) -> Knobs:
        """The first samples from a sequence that fills the square, then by expected improvement, in the end the best by its mean."""
        settings, count = self.settings, len(self.scores)
        if count < settings.warmup:
            return settings.knobs(np.array([_halton(count, 2), _halton(count, 3)]))
        process, seen, values = GaussianProcess(_LENGTH, settings.noise**2), np.array(self.points), np.log(self.scores)
        if count == settings.samples:
            return settings.knobs(seen[int(process.predict(seen, values, seen)[0].argmax())])
        line = np.linspace(0.0, 1.0, _CANDIDATES)
        candidates = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
        mean, deviation = process.predict(seen, values, candidates)
        best = float(process.predict(seen, values, seen)[0].max())
        return settings.knobs(candidates[int(expected_improvement(mean, deviation, best).argmax())])

    def export(self) -> StateTree:
        """The complete samples; one that is under way starts again after `restore`."""
        return {"points": self.points, "scores": self.scores, "samples": self.samples, "knobs": list(self.knobs)}

    def restore(self, state: StateTree) -> None:
        self.points, self.scores, self.samples = list(state["points"]), list(state["scores"]), state["samples"]
        self.knobs = Knobs(int(state["knobs"][0]), float(state["knobs"][1]))


def _halton(index: int, base: int) -> float:
    """The `index`-th number of the sequence of van der Corput in a base: between 0 and 1, and evenly spread."""
    value, part = 0.0, 1.0
    while index:
        index, digit = divmod(index, base)
        part /= base
        value += part * digit
    return value
