"""Where a pipeline cuts the steps of a model: so that the slowest stage is as fast as it can be, or where it is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from polyrhythm.errors import CompositionError


class StageDivision(Protocol):
    """How many steps each stage has."""

    @property
    def model_steps(self) -> int | None:
        """The number of steps of the model that it divides; None where it divides any."""

    def of_replica(self, number: int) -> StageDivision:
        """The division of the replica of that number. Raises CompositionError if there is none."""

    def sizes(self, steps: int, stages: int) -> tuple[int, ...]:
        """For each stage its number of steps, 1 or more. Raises CompositionError where these steps cannot be divided so."""


@dataclass(frozen=True, slots=True)
class GivenStages:
    """So many steps for each stage."""

    steps: tuple[int, ...]

    @property
    def model_steps(self) -> int:
        return sum(self.steps)

    def of_replica(self, number: int) -> GivenStages:
        return self

    def sizes(self, steps: int, stages: int) -> tuple[int, ...]:
        if len(self.steps) != stages or sum(self.steps) != steps or min(self.steps) < 1:
            raise CompositionError(
                f"GivenStages({self.steps}) are for {stages} stages of a model with {steps} steps: give each stage 1 or more, and all "
                f"of them {steps}."
            )
        return self.steps


@dataclass(frozen=True, slots=True)
class BalancedStages:
    """The division whose slowest stage takes least, by dynamic programming over the places of cuts.

    `costs` are the steps' seconds or FLOPs (`step_costs` counts them), by default equal; `speeds` are the stages', by default equal. With
    `nbytes` of each step, stage k is given no more of them than `limits[k]`.
    """

    costs: tuple[float, ...] | None = None
    speeds: tuple[float, ...] | None = None
    nbytes: tuple[float, ...] | None = None
    limits: tuple[float, ...] | None = None

    @property
    def model_steps(self) -> int | None:
        return None if self.costs is None else len(self.costs)

    def of_replica(self, number: int) -> BalancedStages:
        return self

    def sizes(self, steps: int, stages: int) -> tuple[int, ...]:
        if steps < stages:
            raise CompositionError(
                f"A model of {steps} steps cannot be {stages} stages: use {steps} or fewer (ranks times chunks), or divide its steps "
                "further."
            )
        costs = _numbers("costs", self.costs, steps, 1.0)
        speeds = _numbers("speeds", self.speeds, stages, 1.0)
        nbytes = _numbers("nbytes", self.nbytes, steps, 0.0)
        limits = _numbers("limits", self.limits, stages, math.inf)
        if min(speeds) <= 0:
            raise CompositionError(f"speeds={speeds} have one that is not positive: leave that machine out, or give its speed.")
        found = _divided(costs, speeds, nbytes, limits)
        if found is None:
            raise CompositionError(
                f"No division of {steps} steps keeps every stage within limits={limits}: use more stages, more memory, or recomputation."
            )
        return found


def _numbers(name: str, given: tuple[float, ...] | None, count: int, default: float) -> tuple[float, ...]:
    if given is not None and len(given) != count:
        raise CompositionError(f"{name} has {len(given)} numbers, and {count} are needed: give one for each.")
    return (default,) * count if given is None else given


def _divided(costs: Sequence[float], speeds: Sequence[float], nbytes: Sequence[float], limits: Sequence[float]) -> tuple[int, ...] | None:
    """The best sizes: least maximum, then least sum of squares; None if no division keeps the limits."""
    cost, memory = [0.0, *accumulate(costs)], [0.0, *accumulate(nbytes)]
    steps = len(costs)
    best: list[dict[int, tuple[float, float, tuple[int, ...]]]] = [{0: (0.0, 0.0, ())}]
    for stage, (speed, limit) in enumerate(zip(speeds, limits, strict=True)):
        ends: dict[int, tuple[float, float, tuple[int, ...]]] = {}
        last = stage + 1 == len(speeds)
        for start, (slowest, squares, sizes) in best[-1].items():
            for end in range(steps if last else start + 1, steps + 1):
                if end <= start or memory[end] - memory[start] > limit:
                    continue
                taken = (cost[end] - cost[start]) / speed
                chosen = (max(slowest, taken), squares + taken * taken, (*sizes, end - start))
                if end not in ends or chosen[:2] < ends[end][:2]:
                    ends[end] = chosen
        best.append(ends)
    return best[-1][steps][2] if steps in best[-1] else None
