"""JOBs as users write them: with batches of their own, with sparse gradients."""

from __future__ import annotations

import math

import pytest

import polyrhythm as pr
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.training.run import attempt
from polyrhythm.systems import SYSTEMS, find
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.limited import Limited

from .jobs import NETWORK, findings, own_batches, planner, search, sparse_rows

pytestmark = pytest.mark.filterwarnings("ignore:optimizer.step:polyrhythm.errors.UnshardedWarning")


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_a_job_that_makes_its_own_batches_ends_after_the_same_step_everywhere(system: str) -> None:
    strategy = find(system)
    limited = Limited(own_batches, 5, strategy.chooses)
    tried = attempt(limited, workers=strategy.workers(4), strategy=strategy, on=pr.Simulator(NETWORK))
    assert tried.error is None
    last = {event.actor: event.clock for event in tried.outcome.events if isinstance(event, Stepped)}
    assert set(last.values()) == {5}


def test_steps_that_the_job_does_not_count_have_the_samples_of_its_batch() -> None:
    found = findings(workers=(2,), train=own_batches)
    search(found).make([(ALONE, 0, 10, math.inf), (Candidate("allreduce", 2), 0, 10, math.inf)], 1.0)
    assert not found.counts
    assert {each.workers: found.trainings[each][0].samples for each in found.trainings} == {1: 80.0, 2: 160.0}


def test_a_job_that_makes_its_own_batches_is_planned() -> None:
    plan = planner(findings(workers=(2,), train=own_batches)).plan()
    assert plan.best is not None
    assert not plan.best.extrapolated


def test_sparse_gradients_rule_out_those_systems_that_cannot_exchange_them() -> None:
    plan = planner(findings(("allreduce", "ssp", "sparknet"), (2,), train=sparse_rows), 4.0).plan()
    assert plan.best is not None
    assert {each.system for each in plan.choices} <= {"single", "ssp", "sparknet"}
    assert any("sparse" in each.reason for each in plan.refused if each.name.startswith("allreduce"))
