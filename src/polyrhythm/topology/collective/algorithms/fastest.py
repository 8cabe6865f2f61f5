"""The algorithm that should be the fastest for each size, by an alpha-beta model of the network."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from torch import Tensor

from polyrhythm.core.collectives.tree import Tree
from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.algorithm import Algorithm
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.topology.collective.algorithms.butterfly import Butterfly
from polyrhythm.topology.collective.algorithms.direct import Direct
from polyrhythm.topology.collective.algorithms.ring import Ring

_AMONG: tuple[Algorithm, ...] = (Direct(), Butterfly(), Ring(), Tree())
_ROUNDING = 1e-9
"""Formulas that mean the same may differ by so much."""


@dataclass(frozen=True, slots=True)
@checked
class Fastest:
    """For each tensor the one of `among` whose closed form is least where a message takes `latency` seconds + bytes / `bandwidth`.

    Every worker must be given the same numbers, best those of a measured profile: the choice follows from them, the size and the
    number of workers alone, and so is the same at all workers and in every runtime. Of equal ones the first is taken.
    """

    latency: float
    bandwidth: float
    among: tuple[Algorithm, ...] = _AMONG

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0 and isfinite(self.latency) and isfinite(self.bandwidth)):
            raise CompositionError(
                f"Fastest(latency={self.latency}, bandwidth={self.bandwidth}) describes no network: "
                "give seconds of zero or more, and bytes per second above zero."
            )
        if not self.among:
            raise CompositionError("Fastest(among=()) has nothing to choose from: give at least one algorithm, such as Ring().")

    def pick(self, nbytes: int, workers: int) -> Algorithm:
        """The algorithm for a tensor of `nbytes` among `workers`."""
        seconds = [algorithm.seconds(nbytes, workers, self.latency, self.bandwidth) for algorithm in self.among]
        least = min(seconds) * (1 + _ROUNDING)
        return next(algorithm for algorithm, mine in zip(self.among, seconds, strict=True) if mine <= least)

    @property
    def rounding(self) -> Rounding:
        """The most that one of `among` rounds."""
        return max((algorithm.rounding for algorithm in self.among), key=list(Rounding).index)

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """Seconds of the algorithm that is picked, on links of this `latency` and `bandwidth`."""
        return self.pick(nbytes, workers).seconds(nbytes, workers, latency, bandwidth)

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Traffic of the algorithm that is picked."""
        return self.pick(value.numel() * value.element_size(), workers).traffic(value, workers, topic)

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """The first rank in the sum of the algorithm that is picked for `nbytes`."""
        return self.pick(nbytes, workers).first(part, workers, nbytes)

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """By the algorithm that is picked."""
        return await self.pick(value.numel() * value.element_size(), group.size).reduce(port, group, value, topic)
