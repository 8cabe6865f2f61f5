"""Routes of micro-batches through stages that have replicas: around lost ones, by speed, or at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.errors import CompositionError
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.pipeline.timetable import Durations
from polyrhythm.partition.random_numbers import Stream

Sample = tuple[int, int]
"""The replica that was given a micro-batch, and its number there."""
StageSeat = tuple[int, int]
"""A stage, and which of its replicas."""
Speeds = tuple[tuple[float, ...], ...]
"""For each stage and replica how many micro-batches it does in the time of one at speed 1."""
Paths = Mapping[Sample, tuple[int, ...]]
"""For each micro-batch the replica that does each stage."""


class RoutePlan(Protocol):
    """A way to choose the replica of each stage for each micro-batch. All do the same work: gradients of a stage are summed over them."""

    @property
    def even(self) -> bool:
        """Whether each replica of a stage does as many micro-batches as it is given: then replicas may take steps of their own."""

    @property
    def trial(self) -> int:
        """After how many steps speeds are measured, and `measured` is asked; 0 for never."""

    def measured(self, speeds: Speeds) -> RoutePlan:
        """The plan from then on, at these speeds of passes."""

    def paths(self, stages: int, replicas: int, micro_batches: int, step: int = 0) -> Paths:
        """The paths of all micro-batches of a step, of which each replica is given `micro_batches`."""

    def durations(self, stages: int, replicas: int) -> Mapping[StageSeat, Durations]:
        """How long passes take at each seat, as far as it is known: lists are made for these."""


def around(paths: Paths, lost: frozenset[StageSeat], replicas: int) -> Paths:
    """The same paths, but where they lead through lost seats: the micro-batches go to those that are left, in turn.

    Raises CompositionError where a stage has no replica left.
    """
    if not lost:
        return paths
    stages = len(next(iter(paths.values())))
    left = [[replica for replica in range(replicas) if (stage, replica) not in lost] for stage in range(stages)]
    for stage, peers in enumerate(left):
        if not peers:
            raise CompositionError(
                f"All {replicas} replicas of stage {stage} are lost: divide the model among the workers that are left, by one of the "
                "PipelineTemplates."
            )
    return {
        (giver, micro): tuple(
            replica if replica in peers else peers[(micro + giver) % len(peers)] for replica, peers in zip(path, left, strict=True)
        )
        for (giver, micro), path in paths.items()
    }


@dataclass(frozen=True, slots=True)
class AroundLost:
    """Each replica its own, and what a lost stage would do in turn at the replicas that have it still (Gandhi et al., 2024, "ReCycle")."""

    lost: frozenset[StageSeat] = frozenset()

    @property
    def even(self) -> bool:
        return not self.lost

    @property
    def trial(self) -> int:
        return 0

    def measured(self, speeds: Speeds) -> RoutePlan:
        return self

    def paths(self, stages: int, replicas: int, micro_batches: int, step: int = 0) -> Paths:
        """Raises CompositionError where a stage has no replica left."""
        own = {(replica, micro): (replica,) * stages for micro in range(micro_batches) for replica in range(replicas)}
        return around(own, self.lost, replicas)

    def durations(self, stages: int, replicas: int) -> Mapping[StageSeat, Durations]:
        return {}


@dataclass(frozen=True, slots=True)
class BySpeed:
    """As many micro-batches to each replica of a stage as it is fast: `speeds[stage][replica]` (Ryabinin et al., 2023, "SWARM").

    A speed of 0 is that of a lost one.
    """

    speeds: Speeds

    @property
    def even(self) -> bool:
        return all(len(set(each)) == 1 for each in self.speeds)

    @property
    def trial(self) -> int:
        return 0

    def measured(self, speeds: Speeds) -> RoutePlan:
        return self

    def paths(self, stages: int, replicas: int, micro_batches: int, step: int = 0) -> Paths:
        """Raises CompositionError for speeds of other stages or replicas, and for a stage without any."""
        if len(self.speeds) != stages or any(len(each) != replicas or min(each) < 0 or max(each) <= 0 for each in self.speeds):
            raise CompositionError(
                f"speeds={self.speeds} are for {stages} stages with {replicas} replicas: give each a speed of 0 or more, and one above 0 "
                "in each stage."
            )
        order = [(replica, micro) for micro in range(micro_batches) for replica in range(replicas)]
        by_stage = [_dealt(speeds, len(order)) for speeds in self.speeds]
        return {sample: tuple(dealt[place] for dealt in by_stage) for place, sample in enumerate(order)}

    def durations(self, stages: int, replicas: int) -> Mapping[StageSeat, Durations]:
        seats = ((stage, replica) for stage in range(stages) for replica in range(replicas))
        return {seat: Durations(1 / speed, 2 / speed) for seat in seats if (speed := self.speeds[seat[0]][seat[1]]) > 0}


@dataclass(frozen=True, slots=True)
class ByMeasuredSpeed:
    """Each replica its own for `trial` steps, of which the last is timed, and from then on `BySpeed`: all ranks know all speeds."""

    trial: int = 2

    @property
    def even(self) -> bool:
        return False

    def measured(self, speeds: Speeds) -> RoutePlan:
        return BySpeed(speeds)

    def paths(self, stages: int, replicas: int, micro_batches: int, step: int = 0) -> Paths:
        return AroundLost().paths(stages, replicas, micro_batches)

    def durations(self, stages: int, replicas: int) -> Mapping[StageSeat, Durations]:
        return {}


def _dealt(speeds: tuple[float, ...], count: int) -> list[int]:
    """To whom each goes: the one that would have done it first."""
    loads, found = [0] * len(speeds), list[int]()
    able = [replica for replica, speed in enumerate(speeds) if speed > 0]
    for _ in range(count):
        chosen = min(able, key=lambda replica: ((loads[replica] + 1) / speeds[replica], replica))
        loads[chosen] += 1
        found.append(chosen)
    return found


@dataclass(frozen=True, slots=True)
class RandomRoutes:
    """At each stage a random exchange among the replicas, each of which does as many (Kolehmainen et al., 2025, "NoLoCo").

    Others in each step.
    """

    seed: int = 0

    @property
    def even(self) -> bool:
        return True

    @property
    def trial(self) -> int:
        return 0

    def measured(self, speeds: Speeds) -> RoutePlan:
        return self

    def paths(self, stages: int, replicas: int, micro_batches: int, step: int = 0) -> Paths:
        found: dict[Sample, list[int]] = {(replica, micro): [] for micro in range(micro_batches) for replica in range(replicas)}
        for micro in range(micro_batches):
            for stage in range(stages):
                drawn = Stream(self.seed, f"routes/{stage}/{micro}", step).uniform(Piece.all_of((replicas,)))
                for replica, chosen in enumerate(drawn.argsort().tolist()):
                    found[replica, micro].append(chosen)
        return {sample: tuple(path) for sample, path in found.items()}

    def durations(self, stages: int, replicas: int) -> Mapping[StageSeat, Durations]:
        return {}
