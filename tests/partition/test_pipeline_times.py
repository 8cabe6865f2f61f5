"""Pipelines in virtual time take as long as their timetables say: what is sent is under way while ranks work."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from polyrhythm.partition.pipeline.delayed import DelayedPipeline, SameDelay
from polyrhythm.partition.pipeline.mean_loss import MeanLoss
from polyrhythm.partition.pipeline.memory import KeepActivations, Recompute
from polyrhythm.partition.pipeline.pipelined import Pipelined
from polyrhythm.partition.pipeline.schedule import unrolled
from polyrhythm.partition.pipeline.schedules import GPipe, Interleaved, OneForwardOneBackward
from polyrhythm.partition.pipeline.timetable import Durations, timetable
from polyrhythm.partition.place import Place

from .ranks import on_ranks

FORWARD, BACKWARD, RANKS = 10.0, 20.0, 3


class _Slow(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        time.sleep(FORWARD)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        time.sleep(BACKWARD)
        return gradient


class Slow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, value: Tensor) -> Tensor:
        found: Tensor = _Slow.apply(value * self.weight)  # type: ignore[no-untyped-call]
        return found


def seconds(schedule: Any, micro_batches: int, steps: int, memory: Any) -> float:
    """Virtual seconds in which the last rank is done."""

    def program(place: Place, rank: int) -> float:
        model = nn.Sequential(*(Slow() for _ in range(RANKS * schedule.chunks)))
        pipeline = Pipelined(micro_batches=micro_batches, schedule=schedule, memory=memory).local(model, place, MeanLoss(F.mse_loss))
        before = time.monotonic()
        for _ in range(steps):
            pipeline.step(torch.ones(6, 2), torch.zeros(6, 2))
        for _ in pipeline.remaining():
            pass
        return time.monotonic() - before

    return max(on_ranks(program, pp=RANKS))


@pytest.mark.parametrize("micro_batches", [1, 3, 6])
@pytest.mark.parametrize("schedule", [GPipe(), OneForwardOneBackward(), Interleaved(2)], ids=repr)
def test_a_step_takes_as_long_as_its_timetable(schedule: Any, micro_batches: int) -> None:
    durations = [Durations(FORWARD, BACKWARD, 0.0)] * RANKS * schedule.chunks
    lists = [schedule.actions(rank, RANKS, micro_batches) for rank in range(RANKS)]
    expected = timetable(lists, schedule.chunks, durations).seconds
    assert seconds(schedule, micro_batches, 1, KeepActivations()) == pytest.approx(expected, rel=0.01)


def test_a_forward_pass_is_done_again_while_the_gradient_is_on_its_way() -> None:
    durations = [Durations(FORWARD, FORWARD + BACKWARD, 0.0)] * RANKS
    waited = timetable([OneForwardOneBackward().actions(rank, RANKS, 6) for rank in range(RANKS)], 1, durations).seconds
    assert seconds(OneForwardOneBackward(), 6, 1, Recompute()) == pytest.approx(waited - 2 * FORWARD, rel=0.01)


def test_a_pipeline_that_is_never_emptied_waits_once() -> None:
    schedule, micro_batches, steps = DelayedPipeline(SameDelay(1)), 2, 5
    expected = timetable(unrolled(schedule, RANKS, micro_batches, steps), 1, [Durations(FORWARD, BACKWARD, 0.0)] * RANKS).seconds
    assert expected == (steps * micro_batches + RANKS - 1) * (FORWARD + BACKWARD)
    assert seconds(schedule, micro_batches, steps, KeepActivations()) == pytest.approx(expected, rel=0.01)
    assert seconds(GPipe(), micro_batches, steps, KeepActivations()) == pytest.approx(steps * 4 * (FORWARD + BACKWARD), rel=0.01)
