"""The first line keeps its promise: what is printed was executed, lasts as long as what was searched, and beats one tuned machine."""

from __future__ import annotations

import math
import shlex
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from msgspec.structs import replace as changed

import polyrhythm as pr
from polyrhythm.tools.planner.answer import Execution
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.invocation import Invocation
from polyrhythm.tools.planner.lengths import Length, Observed, length_in
from polyrhythm.tools.planner.look import Look
from polyrhythm.tools.planner.measured import CurvePoint, TrainedRun
from polyrhythm.tools.planner.table import plan_text
from polyrhythm.tools.planner.words import sentences

from .jobs import WIDTH, InTurn, data, findings, least_squares, own_batches, planner

ONE, OTHER = Candidate("allreduce", 2), Candidate("ssp", 2)

pytestmark = pytest.mark.filterwarnings("ignore:optimizer.step:polyrhythm.errors.UnshardedWarning")


def came_in(seconds: float, **rest: Any) -> TrainedRun:
    """A run that came to the target after so many virtual seconds."""
    return changed(TrainedRun([CurvePoint(seconds, 10.0, 100.0, 0.01)], 0, seconds, 10.0, 100.0, 20), **rest)


def scheduled(kind: str) -> Any:
    """A JOB whose schedule is of that kind."""

    def train(worker: pr.Worker, epochs: int = 6, lr: float = 0.05, batch_size: int = 32) -> None:
        x, y = data()
        model: Any = torch.nn.Linear(WIDTH, 1)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr))
        worker.evaluate(lambda found: {"loss": (found(x) - y).square().mean().item()})
        batches = worker.batches((x, y), batch_size=batch_size)
        schedulers = torch.optim.lr_scheduler
        scheduler: Any = {
            "cosine": lambda: schedulers.CosineAnnealingLR(optimizer, T_max=epochs),
            "one cycle": lambda: schedulers.OneCycleLR(optimizer, lr, total_steps=epochs * len(batches) + 1),
            "decay by the part that is over": lambda: schedulers.LambdaLR(optimizer, lambda epoch: 1 - epoch / epochs),
            "decay by the epoch": lambda: schedulers.ExponentialLR(optimizer, 0.9),
            "warm-up by the step": lambda: schedulers.LinearLR(optimizer, 0.1, total_iters=5),
        }[kind]()
        for _ in range(epochs):
            for a, b in batches:
                optimizer.zero_grad()
                (model(a) - b).square().mean().backward()
                optimizer.step()
                if kind == "one cycle":
                    scheduler.step()
            if kind != "one cycle":
                scheduler.step()

    return train


def looked_at(train: Any) -> Observed:
    """What is seen of a JOB."""
    return Look(findings(train=train).scenario, 60.0).observed()


@pytest.mark.parametrize("kind", ["cosine", "one cycle", "decay by the part that is over"])
def test_a_schedule_that_depends_on_the_length_is_noticed_and_the_length_varied(kind: str) -> None:
    found = findings(train=scheduled(kind))
    found.observe(looked_at(found.scenario.train))
    assert found.scenario.observed.scheduled
    assert found.space.length == Length("epochs", 6)
    assert found.scenario.longer(1e9, 2, 32) == {}


@pytest.mark.parametrize("kind", ["decay by the epoch", "warm-up by the step"])
def test_a_schedule_by_steps_or_epochs_alone_does_not_depend_on_the_length(kind: str) -> None:
    seen = looked_at(scheduled(kind))
    assert not seen.scheduled
    assert (seen.unit, seen.divided) == (16, True)


def test_the_length_of_a_job_that_makes_its_own_batches_is_its_steps_at_every_worker() -> None:
    found = findings(train=own_batches)
    found.observe(looked_at(own_batches))
    seen = found.scenario.observed
    assert (seen.unit, seen.divided, seen.scheduled) == (1, False, False)
    assert found.samples == 128 * 8
    assert found.scenario.longer(4 * 200 * 8, 4, 8) == {"max_iters": 200}
    assert found.scenario.longer(4 * 100 * 8, 4, 8) == {}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"lr": 0.1, "epochs": 3}, "epochs"),
        ({"max_iters": 2000, "warmup_iters": 100, "eval_steps": 10}, "max_iters"),
        ({"num_train_epochs": 3, "max_steps": 100}, "num_train_epochs"),
        ({"n_episodes": 3}, "n_episodes"),
        ({"total_timesteps": 3}, "total_timesteps"),
        ({"n_iter": 3}, "n_iter"),
        ({"max_steps": -1, "steps_per_epoch": 3, "log_every_steps": 3}, None),
        ({"epochs": 3.0, "steps": True}, None),
    ],
)
def test_the_setting_of_the_length_is_found_by_its_name(settings: dict[str, Any], name: str | None) -> None:
    found = length_in(settings)
    assert (found.name if found else None) == name


def test_settings_that_were_typed_are_varied_too() -> None:
    scenario = replace(findings().scenario, settings={"epochs": "3", "learning_rate": "0.01"})
    assert scenario.length == Length("epochs", 3)
    assert scenario.default("learning_rate") == 0.01


@pytest.mark.parametrize("train", [pytest.param(least_squares, marks=pytest.mark.long), own_batches])
def test_what_is_printed_is_what_was_executed(train: Any) -> None:
    made = planner(findings(("allreduce", "sparknet"), (2, 4), train=train), 4.0)
    made.invocation = Invocation(None, function="train")
    best = made.plan().best
    assert best is not None
    assert best.executed is not None
    scope = {"pr": pr, "train": train, "network": made.found.scenario.network, "devices": made.found.scenario.devices}
    run = eval(best.code.removesuffix(")") + f", seed={best.executed.seeds[0]})", scope)
    reached = made.found.scenario.target.first_reached(run.outcome)
    assert reached is not None
    assert reached.time == pytest.approx(best.executed.seconds[0])
    assert best.seconds.low <= reached.time <= best.seconds.high


def test_a_command_contains_the_length_of_training_that_was_searched() -> None:
    found = findings(workers=(2,), train=own_batches)
    found.observe(looked_at(own_batches))
    found.trainings = {ONE: {0: came_in(2.0, curve=[CurvePoint(2.0, 10.0, 4000.0, 0.01)], samples=4000.0)}}
    made = planner(found)
    made.invocation = Invocation("job.py", (), ("--on", "simulator", "--network", "slow", "--device", "cpu-core"), 0, "loss=0.05")
    choice = made.choice(ONE)
    assert choice is not None
    longer = dict(found.printed(ONE, 4000.0 * choice.seconds.high / choice.seconds.middle).settings)["max_iters"]
    assert 250 < longer <= 1024
    for line in (choice.command, choice.rehearsal):
        assert f"max_iters={longer}" in shlex.split(line)
    assert f"'max_iters': {longer}" in choice.code
    assert "on=pr.Simulator('slow', 'cpu-core')" in choice.code


def test_a_choice_that_misses_the_target_when_it_is_executed_is_not_first() -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {seed: came_in(1.0) for seed in range(3)}, OTHER: {seed: came_in(1.5) for seed in range(3)}}
    found.trainings[ONE][3] = came_in(3.0, reached=-1)
    assert planner(found).leading() == [OTHER, ONE]


def test_what_seldom_misses_comes_before_what_often_does() -> None:
    found = findings(workers=(2,))
    missed = came_in(3.0, reached=-1)
    found.trainings = {
        ONE: {**{seed: came_in(1.0) for seed in range(3)}, 3: missed, 4: missed},
        OTHER: {**{seed: came_in(1.5) for seed in range(5)}, 5: missed},
    }
    assert planner(found).leading() == [OTHER, ONE]


def test_what_misses_the_target_is_tried_with_a_longer_schedule_under_the_same_seeds() -> None:
    found = findings(train=scheduled("cosine"))
    found.observe(looked_at(found.scenario.train))
    found.trainings = {ALONE: {0: came_in(1.0), 5: came_in(1.0, reached=-1)}}
    made = planner(found)
    made._lengthen(ALONE)
    [longer] = [each for each in found.trainings if each != ALONE]
    assert dict(longer.settings) == {"epochs": 12}
    assert found.trainings[longer].keys() == {0, 5}


def test_no_command_is_printed_for_what_came_to_the_target_under_some_seeds_only() -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {0: came_in(1.0), 1: came_in(1.0), 2: came_in(3.0, reached=-1)}}
    made = planner(found)
    made.invocation = Invocation("job.py")
    text = plan_text(made.answer("over"))
    assert "No way of training came to loss 0.05 under every seed: the best, allreduce × 2, did under 2 of 3 seeds" in text
    assert "Run it" not in text


@pytest.mark.parametrize(
    ("seconds", "missed", "message"),
    [
        ([1.1, 0.9], "", "after 1.1 s, 900 ms: within the bounds of the search"),
        ([1.1, 2.5], "", "after 1.1 s, 2.5 s: outside of the bounds of the search (800 ms – 1.2 s); those above include it"),
        ([None], "it ended after 300 samples", "it came to loss 0.05 after not at all: it ended after 300 samples"),
    ],
)
def test_the_result_of_an_execution_is_reported(seconds: list[float | None], missed: str, message: str) -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {seed: came_in(1.0) for seed in range(3)}}
    made = planner(found)
    made.rehearsal.executed[ONE] = Execution([3, 4][: len(seconds)], seconds, Interval(0.8, 1.0, 1.2), missed)
    assert message in sentences(made.answer("over"))[1]


def test_bounds_of_a_short_search_that_hold_anything_are_not_said_to_be_kept() -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {seed: came_in(1.0) for seed in range(3)}}
    made = planner(found)
    made.rehearsal.executed[ONE] = Execution([3], [1.1], Interval(1e-6, 1.0, 2e4), "")
    said = sentences(made.answer("over"))[1]
    assert "are too wide to say anything: give a longer --budget" in said
    assert "within" not in said


def tried(found: Findings) -> set[Any]:
    """The rates that one machine alone was tried with."""
    return {dict(each.settings).get("learning_rate", 0.05) for each in found.trainings if each.is_alone and found.trainings[each]}


@pytest.mark.parametrize("target", [pytest.param("loss=0.05", marks=pytest.mark.long), "loss=0.0001"])
def test_one_machine_alone_is_tuned_before_the_others_also_where_its_own_rate_misses_the_target(target: str) -> None:
    made = planner(findings(("allreduce",), (2,), target), 5.0)
    plan = made.plan()
    assert {0.0125, 0.025, 0.05, 0.1, 0.2, 0.4} <= tried(made.found)
    assert plan.alone is not None
    assert made.found.cost_of(made.found.best_alone) <= made.found.cost_of(ALONE)
    assert plan.best is not None
    assert plan.best.cost <= 1.1 * plan.alone.cost


def test_one_machine_alone_comes_first_where_others_are_hardly_faster() -> None:
    found = findings(workers=(2,))
    tuned = Candidate("single", 1, (), (("learning_rate", 0.1),))
    found.trainings = {ONE: {seed: came_in(1.0) for seed in range(3)}, tuned: {seed: came_in(1.05) for seed in range(3)}}
    plan = planner(found).answer("over")
    assert plan.best is not None
    assert plan.best.is_alone
    assert "the best way, allreduce × 2, takes 0.95 of that, which is within the error" in sentences(plan)[0]
    found.trainings[tuned] = {seed: came_in(1.2) for seed in range(3)}
    assert planner(found).leading()[0] == ONE
    assert (
        "One machine alone, tuned in the same way (learning_rate=0.1), takes 1.2 times as long." in sentences(planner(found).answer("x"))[0]
    )


def test_a_job_that_is_large_for_the_budget_is_reported_at_once_with_a_remedy() -> None:
    made = planner(findings(("allreduce", "ssp"), (2,)))
    remarks: list[str] = []
    made.acquaintance._remark(Observed(real=600.0))
    made.on_remark = remarks.append
    [remark] = made.acquaintance.remarks
    assert "large for this budget" in remark
    assert "--budget" in remark
    assert "--systems" in remark


def test_what_the_first_step_loads_is_no_part_of_a_step() -> None:
    started: list[float] = []

    def train(worker: pr.Worker, epochs: int = 4, lr: float = 0.05, batch_size: int = 8) -> None:
        if not started:
            started.append(time.monotonic())
            time.sleep(0.3)  # as imports of the first step of all
        least_squares(worker, epochs, lr, batch_size)

    assert Look(findings(train=train).scenario, 0.2).observed().real < 0.2


def test_what_no_run_came_to_has_no_command() -> None:
    found = findings(workers=(2,), target="loss=1e-9")
    made = planner(found)
    made.search.make([(ONE, 0, 24, math.inf)], 1.0)
    made.invocation = Invocation("job.py")
    assert "Run it" not in plan_text(made.answer("the time was up"))


def test_the_bounds_take_in_every_run_that_was_made() -> None:
    found = findings(workers=(2,))
    found.trainings = {
        ONE: {seed: came_in(seconds) for seed, seconds in enumerate([1.0, 1.0, 1.0, 1.0, 3.0])},
        **{Candidate("ssp", workers): {seed: came_in(1.0) for seed in range(3)} for workers in range(2, 12)},
    }
    choice = planner(found).choice(ONE)
    assert choice is not None
    assert choice.seconds.low <= 1.0
    assert choice.seconds.high >= 3.0


def test_where_the_time_is_up_one_choice_is_executed_and_no_second_one() -> None:
    turns = InTurn()
    made = planner(findings(workers=(2,)), 1.0, turns)
    first, second = Candidate("allreduce", 2, (), (("learning_rate", 0.1),)), Candidate("sparknet", 2, (), (("learning_rate", 0.1),))
    made.search.make([(each, 0, 100, math.inf) for each in (first, second)], 1e9)
    turns.seconds = 1.2
    made.rehearsal.execute(first, Interval(0.1, 1.0, 5.0), 600.0)
    assert first in made.rehearsal.executed
    turns.seconds = 1.3
    made.rehearsal.execute(second, Interval(0.1, 1.0, 5.0), 600.0)
    assert second not in made.rehearsal.executed
