"""Routes of micro-batches through stages that have replicas: around lost ones, by speed, or at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.errors import CompositionError
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.random_numbers import Stream

Sample = tuple[int, int]
"""The replica that was given a micro-batch, and its number there."""
StageSeat = tuple[int, int]
"""A stage, and which of its replicas."""
Paths = Mapping[Sample, tuple[int, ...]]
"""For each micro-batch the replica that does each stage."""


class RoutePlan(Protocol):
    """A way to choose the replica of each stage for each micro-batch. All do the same work: gradients of a stage are summed over them."""

    def paths(self, stages: int, replicas: int, micro_batches: int) -> Paths:
        """The paths of all micro-batches of a step, of which each replica is given `micro_batches`."""


@dataclass(frozen=True, slots=True)
class AroundLost:
    """Each replica its own, and what a lost stage would do in turn at the replicas that have it still (Gandhi et al., 2024, "ReCycle")."""

    lost: frozenset[StageSeat] = frozenset()

    def paths(self, stages: int, replicas: int, micro_batches: int) -> Paths:
        """Raises CompositionError where a stage has no replica left."""
        left = [[replica for replica in range(replicas) if (stage, replica) not in self.lost] for stage in range(stages)]
        for stage, peers in enumerate(left):
            if not peers:
                raise CompositionError(f"All {replicas} replicas of stage {stage} are lost: divide the model among those that are left.")
        return {
            (replica, micro): tuple(replica if replica in peers else peers[(micro + replica) % len(peers)] for peers in left)
            for micro in range(micro_batches)
            for replica in range(replicas)
        }


@dataclass(frozen=True, slots=True)
class BySpeed:
    """As many micro-batches to each replica of a stage as it is fast: `speeds[stage][replica]` (Ryabinin et al., 2023, "SWARM").

    A speed of 0 is that of a lost one.
    """

    speeds: tuple[tuple[float, ...], ...]

    def paths(self, stages: int, replicas: int, micro_batches: int) -> Paths:
        """Raises CompositionError for speeds of other stages or replicas, and for a stage without any."""
        if len(self.speeds) != stages or any(len(each) != replicas or min(each) < 0 or max(each) <= 0 for each in self.speeds):
            raise CompositionError(
                f"speeds={self.speeds} are for {stages} stages with {replicas} replicas: give each a speed of 0 or more, and one above 0 "
                "in each stage."
            )
        order = [(replica, micro) for micro in range(micro_batches) for replica in range(replicas)]
        by_stage = [_dealt(speeds, len(order)) for speeds in self.speeds]
        return {sample: tuple(dealt[place] for dealt in by_stage) for place, sample in enumerate(order)}


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
    """At each stage a random exchange among the replicas, each of which does as many (Kolehmainen et al., 2025, "NoLoCo")."""

    seed: int = 0
    step: int = 0

    def paths(self, stages: int, replicas: int, micro_batches: int) -> Paths:
        found: dict[Sample, list[int]] = {(replica, micro): [] for micro in range(micro_batches) for replica in range(replicas)}
        for micro in range(micro_batches):
            for stage in range(stages):
                drawn = Stream(self.seed, f"routes/{stage}/{micro}", self.step).uniform(Piece.all_of((replicas,)))
                for replica, chosen in enumerate(drawn.argsort().tolist()):
                    found[replica, micro].append(chosen)
        return {sample: tuple(path) for sample, path in found.items()}
