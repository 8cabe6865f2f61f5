"""Runs of a search that end early: soon after the target, or because they will hardly come there."""

from __future__ import annotations

import math
from dataclasses import replace
from time import sleep

import pytest

from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.early_end import EarlyEnd, Prospect
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.learning_curves import LearningCurves, Needed, broad
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.tasks import TrainingTask

from .jobs import findings, own_batches

TARGET = parse_target("loss=0.05")
RATE = (("learning_rate", 0.1),)
CANDIDATES = [
    Candidate(system, 3, (), RATE) for system in ("allreduce", "ssp", "gossiping-sgd", "diloco", "adpsgd", "sparknet", "onebit", "fedavg")
]
STEPS = 150


def run_of(found: Findings, candidate: Candidate, looks: bool = True) -> tuple[TrainedRun, list[tuple[float, float]]]:
    """The run, and its evaluations."""
    task = found.task(candidate, 0, STEPS, math.inf, math.inf)
    tried = task.attempt(None) if looks else task._attempt(task.scenario.on(0), lambda event: None, looks=False)
    assert tried.error is None
    seen = [(event.time, event.metrics["loss"]) for event in tried.outcome.events if isinstance(event, Evaluated)]
    return found.read(candidate, tried, STEPS), seen


@pytest.mark.parametrize("candidate", CANDIDATES, ids=lambda each: each.system)
def test_a_run_ends_soon_after_the_target_and_comes_there_when_the_whole_one_does(candidate: Candidate) -> None:
    found = findings((candidate.system,), (3,))
    short, seen = run_of(found, candidate)
    whole, evaluated = run_of(found, candidate, looks=False)
    assert short.end is not None
    assert whole.end is not None
    assert whole.end.seconds / 1.1 <= short.end.seconds <= whole.end.seconds  # the last moment of a run need not be one of the grid
    assert short.end.samples == pytest.approx(whole.end.samples, rel=0.1)
    assert short.samples <= 0.8 * whole.samples
    both = {time for time, _ in seen[:-1]} & {time for time, _ in evaluated}
    assert [each for each in seen if each[0] in both] == [each for each in evaluated if each[0] in both]


def test_looking_takes_no_virtual_time_where_operations_are_counted() -> None:
    found = findings(("sparknet",), (2,), train=own_batches)
    one = Candidate("sparknet", 2, (), (("lr", 0.1),))
    counted = TrainingTask(found.scenario, one, found.objective, 0, 60, per_step=16.0)
    tried = [each.outcome for each in (counted.attempt(None), counted._attempt(found.scenario.on(0), lambda event: None, looks=False))]
    [first, second] = [{event.time: event.metrics for event in each.events if isinstance(event, Evaluated)} for each in tried]
    assert set(list(first)[:-1]) <= set(second)
    assert TARGET.first_reached(tried[0]) == TARGET.first_reached(tried[1])


def test_a_run_that_will_hardly_come_to_the_target_in_time_is_paused_and_continues_further() -> None:
    found = findings(("allreduce",), (3,))
    slow = Candidate("allreduce", 3, (), (("learning_rate", 0.0125),))
    task = found.task(slow, 0, STEPS, math.inf, math.inf)
    prospect = Prospect(LearningCurves(TARGET), Needed(math.log(1000.0), 1.0), 600.0)
    paused = found.read(slow, replace(task, prospect=prospect).attempt(None), STEPS)
    assert paused.end is None
    assert not paused.over
    assert not paused.cut
    assert paused.limit < STEPS
    assert paused.samples < 400
    further = found.read(slow, replace(task, prospect=replace(prospect, least=1.5 * paused.samples)).attempt(None), STEPS)
    assert further.samples >= 1.5 * paused.samples


def test_a_run_that_takes_long_by_the_clock_is_paused() -> None:
    found = findings(("allreduce",), (3,))
    task = found.task(CANDIDATES[0], 0, STEPS, math.inf, math.inf)
    run = found.read(CANDIDATES[0], replace(task, patience=0.0).attempt(None), STEPS)
    assert run.limit < 5
    assert not run.over


def test_what_is_no_number_says_nothing() -> None:
    early = EarlyEnd(TARGET, 8.0, Prospect(LearningCurves(TARGET), broad(100.0), 200.0))
    for clock, metrics in ((0, {}), (6, {"loss": math.nan}), (7, {"accuracy": 1.0})):
        early.look(clock, lambda metrics=metrics: metrics)  # type: ignore[misc]
    assert not early.met
    assert not early.hopeless
    early.look(20, lambda: {"loss": 0.04})
    assert early.met


def test_looks_that_take_long_are_few() -> None:
    dear, cheap = (EarlyEnd(TARGET, 8.0, None, 1.0, seconds) for seconds in (5.0, 1e-6))
    sleep(0.001)
    assert cheap.is_due(30)
    assert not dear.is_due(30)
