"""The latency of one model on one kind of machine, by batch size: what a plan promises with."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class LatencyProfile:
    """The 99th percentile of the seconds of a batch of `model` on machines of `kind`, and the bytes that it takes there.

    `p99` and `nbytes` have an entry for each batch size from 1; neither falls. `before` and `after` are the seconds of a request outside
    of the batch, such as decoding an image, and `loading` those until the model can serve at all. `spread` is the part of the 99th
    percentile by which batches differ: they take 1 − `spread` to 1 of it, in the middle 1 − `spread` / 2; only the simulator uses it.
    Measure with the models that will share the machine: latencies of a model alone are too good. Raises CompositionError for numbers that
    no machine can have.
    """

    model: str
    kind: str
    p99: tuple[float, ...]
    nbytes: tuple[int, ...]
    before: float = 0.0
    after: float = 0.0
    loading: float = 0.0
    spread: float = 0.0

    def __post_init__(self) -> None:
        name = f"The profile of {self.model!r} on {self.kind!r}"
        if not self.p99 or len(self.p99) != len(self.nbytes):
            raise CompositionError(
                f"{name} has {len(self.p99)} latencies and {len(self.nbytes)} sizes: give one of each for every batch size from 1."
            )
        if not all(0 < value < math.inf for value in self.p99) or list(self.p99) != sorted(self.p99):
            raise CompositionError(f"{name} has latencies that are not above zero, or fall with the batch: give the running maximum.")
        if self.nbytes[0] < 0 or list(self.nbytes) != sorted(self.nbytes):
            raise CompositionError(f"{name} has sizes below zero, or that fall with the batch: give the bytes with that batch.")
        if not all(0 <= value < math.inf for value in (self.before, self.after, self.loading)):
            raise CompositionError(f"{name} has seconds before, after or of loading that are below zero or infinite: give 0 or more.")
        if not 0 <= self.spread < 1:
            raise CompositionError(f"{name} has a spread of {self.spread}, which is no part of a latency: give one from 0 to below 1.")

    @classmethod
    def measured(
        cls, model: str, kind: str, points: Mapping[int, float], nbytes: Mapping[int, int], outside: tuple[float, float, float] = (0, 0, 0)
    ) -> LatencyProfile:
        """The profile through measured batch sizes, with straight lines between them; below the first it is the first.

        A latency that is below that of a smaller batch is raised to it. `outside` has the seconds before, after, and of loading.
        """
        if not points or not nbytes or min(points) < 1 or min(nbytes) < 1:
            raise CompositionError(f"The profile of {model!r} on {kind!r} needs measured batch sizes, each at least 1: give some.")
        batches = range(1, max(points) + 1)
        rising, p99 = 0.0, []
        for batch in batches:
            rising = max(rising, _between(points, batch))
            p99.append(rising)
        sizes = [math.ceil(_between(nbytes, batch)) for batch in batches]
        sizes = [max(sizes[: index + 1]) for index in range(len(sizes))]
        return cls(model, kind, tuple(p99), tuple(sizes), *outside)

    @property
    def largest(self) -> int:
        """The largest batch that was measured."""
        return len(self.p99)

    @property
    def outside(self) -> float:
        """The seconds of a request that are not in its batch."""
        return self.before + self.after

    def latency(self, batch: int) -> float:
        """The seconds of a batch of that size, from 1 to `largest`."""
        return self.p99[batch - 1]

    def throughput(self, batch: int) -> float:
        """Requests per second when batches of that size follow one another."""
        return batch / self.p99[batch - 1]

    def largest_within(self, seconds: float) -> int:
        """The largest batch that takes at most `seconds`; 0 where none does."""
        return bisect_right(self.p99, seconds * (1 + 1e-12))


def _between(points: Mapping[int, float], batch: int) -> float:
    """The value at `batch` on the straight line between the measured neighbours; beyond the ends the value there."""
    known = sorted(points)
    at = bisect_right(known, batch)
    if at == 0 or at == len(known):
        return float(points[known[max(0, at - 1)]])
    low, high = known[at - 1], known[at]
    return points[low] + (points[high] - points[low]) * (batch - low) / (high - low)
