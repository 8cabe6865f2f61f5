"""Laws of the schedules of pipelines, by their timetables: they are legal, and wait and keep as much as their formulas say."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline.actions import Backward, BackwardInput, BackwardWeight, Forward
from polyrhythm.partition.pipeline.schedule import PipelineSchedule, unrolled
from polyrhythm.partition.pipeline.schedules import GPipe, Interleaved, OneForwardOneBackward, ZeroBubble, in_flight_for
from polyrhythm.partition.pipeline.timetable import Durations, StageLink, Timetable, timetable

SCHEDULES: tuple[Any, ...] = (GPipe(), OneForwardOneBackward(), Interleaved(1), Interleaved(2), Interleaved(3), ZeroBubble())
SIZES = list(product((1, 2, 3, 4, 5, 8), range(1, 13)))
STAGE = Durations(forward=1, backward=2, weight=1)


def table(schedule: PipelineSchedule, ranks: int, micro_batches: int, link: StageLink | None = None) -> Timetable:
    lists = [schedule.actions(rank, ranks, micro_batches) for rank in range(ranks)]
    stages = ranks * schedule.chunks
    return timetable(lists, schedule.chunks, [STAGE] * stages, [link or StageLink()] * (stages - 1))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_every_schedule_is_legal_and_keeps_as_many_micro_batches_as_it_says(schedule: Any) -> None:
    for ranks, micro_batches in SIZES:
        assert not schedule.refusal(ranks, micro_batches)
        made = table(schedule, ranks, micro_batches)
        for rank in range(ranks):
            most = schedule.live(rank, ranks, micro_batches)
            assert made.live(rank) == most or (micro_batches % ranks and schedule.chunks > 1 and made.live(rank) < most)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_buffers_for_what_is_live_are_enough(schedule: Any) -> None:
    for ranks, micro_batches in SIZES:
        lists = [schedule.actions(rank, ranks, micro_batches) for rank in range(ranks)]
        held = max(schedule.live(rank, ranks, micro_batches) for rank in range(ranks))
        assert timetable(lists, schedule.chunks, buffers=held).seconds > 0


@pytest.mark.parametrize("schedule", [GPipe(), OneForwardOneBackward()], ids=repr)
def test_the_bubble_of_equal_stages_is_that_of_huang_et_al(schedule: Any) -> None:
    for ranks, micro_batches in SIZES:
        assert table(schedule, ranks, micro_batches).bubble == pytest.approx((ranks - 1) / (micro_batches + ranks - 1))


@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_the_bubble_of_interleaved_stages_is_that_of_narayanan_et_al(chunks: int) -> None:
    for ranks, micro_batches in SIZES:
        if micro_batches % ranks == 0:
            expected = (ranks - 1) / (micro_batches * chunks + ranks - 1)
            assert table(Interleaved(chunks), ranks, micro_batches).bubble == pytest.approx(expected)


def test_a_split_backward_pass_leaves_the_bubble_of_qi_et_al() -> None:
    for ranks, micro_batches in SIZES:
        waits = table(ZeroBubble(), ranks, micro_batches).seconds - micro_batches * (STAGE.forward + STAGE.backward)
        if micro_batches >= ranks:
            assert waits == (ranks - 1) * (STAGE.forward + STAGE.backward - 2 * STAGE.weight)
        assert waits <= table(OneForwardOneBackward(), ranks, micro_batches).seconds - 3 * micro_batches


def test_a_skewed_stage_bounds_the_speed_up_by_its_share() -> None:
    costs = (1.0, 4.0, 1.0, 2.0)
    durations = [Durations(cost, 2 * cost, cost) for cost in costs]
    for schedule in (GPipe(), OneForwardOneBackward(), ZeroBubble()):
        lists = [schedule.actions(rank, 4, 16) for rank in range(4)]
        assert 16 * 3 * sum(costs) / timetable(lists, 1, durations).seconds <= sum(costs) / max(costs)


@pytest.mark.parametrize("latency", [0.0, 0.5, 2.0, 10.0])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_enough_micro_batches_in_flight_hide_the_latency_of_links(latency: float, ranks: int) -> None:
    link, micro_batches = StageLink(latency, transfer=0.5), 64
    kept = in_flight_for([STAGE] * ranks, [link] * (ranks - 1))
    late = OneForwardOneBackward(kept)
    assert not late.refusal(ranks, micro_batches)
    once = (ranks - 1) * (3 + 2 * (latency + link.transfer))  # a micro-batch to the last stage and back, without the first one's work
    assert table(late, ranks, micro_batches, link).seconds == pytest.approx(once + 3 * micro_batches)
    if latency >= 2.0:
        assert table(OneForwardOneBackward(), ranks, micro_batches, link).seconds > 1.2 * (once + 3 * micro_batches)
    if latency == 0.0 and ranks == 2:
        assert kept == (1 + math.ceil((3 + 1) / 3), 1)


def test_stages_without_latency_have_as_many_in_flight_as_ever() -> None:
    assert in_flight_for([STAGE] * 4, [StageLink()] * 3) == (4, 3, 2, 1)


def test_a_rank_that_would_wait_for_a_later_one_is_refused() -> None:
    assert "none more than the rank before" in OneForwardOneBackward((2, 3, 1)).refusal(3, 4)
    assert "chunks=0" in Interleaved(0).refusal(3, 4)
    lists = [OneForwardOneBackward((2, 3, 1)).actions(rank, 3, 4) for rank in range(3)]
    with pytest.raises(CompositionError, match="The schedule stands still: rank 0 with Backward"):
        timetable(lists)


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ([[Forward(0), Forward(1), Backward(0)]], "micro-batch 1 of chunk 0 1 times forward"),
        ([[Forward(0), Forward(0), Backward(0)]], "2 times forward"),
        ([[Backward(0), Forward(0)]], "before its Forward"),
        ([[Forward(0), BackwardWeight(0), BackwardInput(0)]], "before its BackwardInput"),
        ([[Forward(0), Backward(0)], [Forward(0), Backward(0), Forward(1), Backward(1)]], "rank 0 has no such micro-batch"),
        ([[Forward(0), Backward(0), Forward(1), Backward(1)], [Forward(1), Forward(0), Backward(1), Backward(0)]], "stands still"),
    ],
)
def test_lists_that_cannot_be_done_are_refused(lists: Any, words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        timetable(lists)


def test_too_few_buffers_are_a_deadlock_that_is_found() -> None:
    lists = [GPipe().actions(rank, 2, 4) for rank in range(2)]
    lists[1] = [Forward(0), Forward(1), Forward(2), Forward(3), *lists[1][4:]]
    lists[0] = [*map(Forward, range(4)), *map(Backward, range(4))]
    assert timetable(lists, buffers=1).seconds >= timetable(lists).seconds
    with pytest.raises(CompositionError, match="stands still"):
        timetable(
            [lists[0], [Forward(0), Backward(0), Forward(1), Backward(1), Forward(2), Backward(2), Forward(3), Backward(3)]], buffers=1
        )


def test_an_unrolled_schedule_counts_its_micro_batches_on() -> None:
    once = unrolled(OneForwardOneBackward(), 2, 2, 2)[1]
    assert once == [Forward(0), Backward(0), Forward(1), Backward(1), Forward(2), Backward(2), Forward(3), Backward(3)]
