"""The protocol of a pipeline's schedule: for each rank a list of actions. A schedule is a value; `timetable` proves it legal."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.pipeline.actions import Action, Actions
from polyrhythm.partition.pipeline.stage import Stages
from polyrhythm.partition.pipeline.weights import StageWeights


class PipelineSchedule(Protocol):
    """The order in which each rank takes the micro-batches of one batch."""

    @property
    def chunks(self) -> int:
        """The number of stages that each rank has."""

    def refusal(self, ranks: int, micro_batches: int) -> str:
        """Why so many ranks or micro-batches cannot be scheduled so, with a remedy; "" if they can."""

    def actions(self, rank: int, ranks: int, micro_batches: int) -> Actions:
        """What the rank does in one training step."""

    def live(self, rank: int, ranks: int, micro_batches: int) -> int:
        """The largest number of micro-batches, times chunks, whose activations the rank keeps at once."""

    def delay_of(self, rank: int, ranks: int, micro_batches: int) -> int:
        """How many training steps are between the weights that a gradient is of, and its use; 0 where all wait for all in each step."""

    def weights(self, stages: Stages, axis: Axis, micro_batches: int) -> StageWeights:
        """With which weights the rank passes batches through its stages."""


def unrolled(schedule: PipelineSchedule, ranks: int, micro_batches: int, steps: int) -> list[list[Action]]:
    """The actions of each rank in so many training steps, and those that empty the pipeline after the last; micro-batches count on."""
    found: list[list[Action]] = []
    for rank in range(ranks):
        once = schedule.actions(rank, ranks, micro_batches)
        last = steps + max([schedule.delay_of(each, ranks, micro_batches) for each in range(ranks)])
        all_of_them = (replace(action, micro=action.micro + step * micro_batches) for step in range(last) for action in once)
        found.append([action for action in all_of_them if 0 <= action.micro < steps * micro_batches])
    return found
