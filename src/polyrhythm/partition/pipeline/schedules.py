"""Schedules that end each training step with an empty pipeline: their gradients are those of one process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.actions import Action, Actions, Backward, BackwardInput, BackwardWeight, Forward
from polyrhythm.partition.pipeline.stage import Stages
from polyrhythm.partition.pipeline.timetable import Durations, StageLink
from polyrhythm.partition.pipeline.weights import CurrentWeights, StageWeights


@dataclass(frozen=True, slots=True)
class GPipe:
    """All forward passes, then all backward passes (Huang et al., 2019). A rank keeps all micro-batches."""

    @property
    def chunks(self) -> int:
        return 1

    def refusal(self, ranks: int, micro_batches: int) -> str:
        return ""

    def actions(self, rank: int, ranks: int, micro_batches: int) -> Actions:
        return [*map(Forward, range(micro_batches)), *map(Backward, range(micro_batches))]

    def live(self, rank: int, ranks: int, micro_batches: int) -> int:
        return micro_batches

    def delay_of(self, rank: int, ranks: int, micro_batches: int) -> int:
        return 0

    def weights(self, stages: Stages, axis: Axis, micro_batches: int) -> StageWeights:
        return CurrentWeights(stages, axis)


@dataclass(frozen=True, slots=True)
class OneForwardOneBackward:
    """Backward passes as early as they can be (Narayanan et al., 2021, "PipeDream-Flush"): rank i keeps K - i micro-batches at most.

    `in_flight` are other numbers for the ranks, such as those of `in_flight_for`, which hide the latency of slow lines.
    """

    in_flight: tuple[int, ...] | None = None

    @property
    def chunks(self) -> int:
        return 1

    def refusal(self, ranks: int, micro_batches: int) -> str:
        kept = self.in_flight
        if kept is None:
            return ""
        if len(kept) != ranks or kept[-1] < 1 or any(a < b for a, b in pairwise(kept)):
            return (
                f"in_flight={kept} are for {ranks} ranks: give each a number of 1 or more, and none more than the rank before "
                "it has, whose micro-batches it would wait for."
            )
        return ""

    def actions(self, rank: int, ranks: int, micro_batches: int) -> Actions:
        return alternating(self.live(rank, ranks, micro_batches) - 1, micro_batches)

    def live(self, rank: int, ranks: int, micro_batches: int) -> int:
        return min(micro_batches, ranks - rank if self.in_flight is None else self.in_flight[rank])

    def delay_of(self, rank: int, ranks: int, micro_batches: int) -> int:
        return 0

    def weights(self, stages: Stages, axis: Axis, micro_batches: int) -> StageWeights:
        return CurrentWeights(stages, axis)


def alternating(warmup: int, micro_batches: int) -> list[Action]:
    """So many forward passes, then one forward and one backward pass in turn, then the backward passes that are left."""
    found: list[Action] = list(map(Forward, range(warmup)))
    for micro in range(micro_batches - warmup):
        found += [Forward(warmup + micro), Backward(micro)]
    return [*found, *map(Backward, range(micro_batches - warmup, micro_batches))]


def in_flight_for(durations: Sequence[Durations], links: Sequence[StageLink]) -> tuple[int, ...]:
    """For each rank the micro-batches in flight that keep it busy: those of the next rank, and what the way there and back takes.

    Between two ranks the way is a whole number of micro-batches, since each rank does one forward and one backward pass in turn: it is not
    the latency of all links together that counts. Enough where no transfer takes longer than the slowest rank works for a micro-batch.
    """
    period = max(each.forward + each.backward for each in durations)
    found = [1]
    for later, link in zip(reversed(durations[1:]), reversed(links), strict=True):
        way = later.forward + later.backward + 2 * link.latency + link.taken(False) + link.taken(True)
        found.append(found[-1] + max(0, math.ceil(way / period - 1e-9)))
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Interleaved:
    """Each rank has `chunks` stages, and a micro-batch goes around the ranks as often (Narayanan et al., 2021, "Megatron-LM", 2.2).

    The bubble is shorter by that factor, and what is sent longer. A number of micro-batches that the ranks do not divide takes the time of
    the next one that they do.
    """

    chunks: int = 2

    def refusal(self, ranks: int, micro_batches: int) -> str:
        return "" if self.chunks >= 1 else f"chunks={self.chunks} is no number of stages: give 1 or more."

    def actions(self, rank: int, ranks: int, micro_batches: int) -> Actions:
        whole = -(-micro_batches // ranks) * ranks
        passes = whole * self.chunks
        warmup = self._warmup(rank, ranks, passes)
        order = [divmod(number, ranks * self.chunks) for number in range(passes)]
        forward = [Forward(group * ranks + at % ranks, at // ranks) for group, at in order]
        backward = [Backward(group * ranks + at % ranks, self.chunks - 1 - at // ranks) for group, at in order]
        found: list[Action] = list(forward[:warmup])
        for number in range(passes - warmup):
            found += [forward[warmup + number], backward[number]]
        # a legal order stays legal without some of the micro-batches
        return [action for action in [*found, *backward[passes - warmup :]] if action.micro < micro_batches]

    def _warmup(self, rank: int, ranks: int, passes: int) -> int:
        return min(passes, 2 * (ranks - 1 - rank) + (self.chunks - 1) * ranks)

    def live(self, rank: int, ranks: int, micro_batches: int) -> int:
        whole = -(-micro_batches // ranks) * ranks * self.chunks
        return min(self.chunks * micro_batches, self._warmup(rank, ranks, whole) + 1)

    def delay_of(self, rank: int, ranks: int, micro_batches: int) -> int:
        return 0

    def weights(self, stages: Stages, axis: Axis, micro_batches: int) -> StageWeights:
        return CurrentWeights(stages, axis)


@dataclass(frozen=True, slots=True)
class ZeroBubble:
    """One forward, one backward, whose gradients of weights are left for when the rank would wait (Qi et al., 2024, "ZB-H1").

    No rank keeps more micro-batches than the first one of `OneForwardOneBackward`. Weights of `split_backward.SPLIT` are left; other
    gradients are made with those of the input.
    """

    @property
    def chunks(self) -> int:
        return 1

    def refusal(self, ranks: int, micro_batches: int) -> str:
        return ""

    def actions(self, rank: int, ranks: int, micro_batches: int) -> Actions:
        found: list[Action] = []
        weights = 0
        for action in alternating(min(micro_batches, ranks - rank) - 1, micro_batches):
            if action.begins:
                found.append(action)
                continue
            found.append(BackwardInput(action.micro))
            last = action.micro + ranks - rank >= micro_batches  # no forward pass follows: the rank would wait for the next backward
            if last or action.micro >= rank:
                found.append(BackwardWeight(weights))
                weights += 1
        return [*found, *map(BackwardWeight, range(weights, micro_batches))]

    def live(self, rank: int, ranks: int, micro_batches: int) -> int:
        return min(micro_batches, ranks)

    def delay_of(self, rank: int, ranks: int, micro_batches: int) -> int:
        return 0

    def weights(self, stages: Stages, axis: Axis, micro_batches: int) -> StageWeights:
        return CurrentWeights(stages, axis)
