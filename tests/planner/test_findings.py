"""Conclusions of a search from runs: the candidates for the best system, and what excludes others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from msgspec.structs import replace as changed

import polyrhythm as pr
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.fleet import fleet
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.invocation import Invocation
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.measured import CurvePoint, TrainedRun
from polyrhythm.tools.planner.objective import Objective
from polyrhythm.tools.planner.plan import HERE, PlanRequest, source_of
from polyrhythm.tools.planner.planner import Planner
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.space import Space
from polyrhythm.tools.planner.table import plan_text
from polyrhythm.tools.planner.tasks import TIME_IS_UP
from polyrhythm.tools.planner.words import sentences
from polyrhythm.workloads.load import load_workload

from .jobs import NETWORK, WIDTH, InTurn, data, findings, least_squares, planner, search

ONE, OTHER = Candidate("allreduce", 2), Candidate("ssp", 2)


def came_in(seconds: float, **rest: Any) -> TrainedRun:
    """A run that came to the target after so many virtual seconds and 100 samples."""
    return TrainedRun([CurvePoint(seconds, 10.0, 100.0, 0.01)], 0, seconds, 10.0, 100.0, 20, **rest)


def test_what_comes_to_the_target_is_no_longer_ruled_out() -> None:
    found = findings(workers=(2,))
    found.refused[ONE] = "others lead after 8 samples, as their papers have them"
    search(found).make([(ONE, 0, 400, math.inf)], 1.0)
    assert found.cost_of(ONE) < math.inf
    assert ONE not in found.refused


def test_memory_counts_for_runs_that_were_kept(tmp_path: Path) -> None:
    search(findings(workers=(2,), cache=MeasureCache(tmp_path))).make([(ONE, 0, 400, math.inf)], 1.0)
    again = findings(workers=(2,), cache=MeasureCache(tmp_path), most_bytes=10.0)
    search(again).make([(ONE, 0, 400, math.inf)], 1.0)
    assert (again.runs, again.kept) == (0, 1)
    assert "more than" in again.refused[ONE]


def test_others_are_not_measured_against_one_that_does_not_fit() -> None:
    found = findings(workers=(2,), most_bytes=1e6)
    found.trainings = {ONE: {0: came_in(1.0, held=10**7)}, OTHER: {0: came_in(2.0, held=1000)}}
    assert found.best == 2.0
    assert found.ranked() == [OTHER]


def test_a_further_seed_that_was_too_late_does_not_count() -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {0: came_in(1.0)}}
    late = found.task(ONE, 1, 400, math.inf, 0.0).attempt(None)
    assert found.keep(ONE, 1, 400, late).cut == TIME_IS_UP
    assert list(found.trainings[ONE]) == [0]


def test_a_target_that_the_untrained_model_meets_is_reported_before_anything_is_searched() -> None:
    turns = InTurn()
    plan = planner(findings(("allreduce", "sparknet"), (2,), "loss=1e9"), turns=turns).plan()
    assert plan.best is None
    assert turns.made == 0
    assert "The untrained model meets loss 1e+09 already" in sentences(plan)[0]
    assert "polyrhythm run" not in plan_text(plan)


def test_the_batch_is_not_varied_where_steps_were_measured() -> None:
    scenario = Scenario("least_squares", least_squares, parse_target("loss=0.05"), NETWORK, fleet(pr.hardware.Profile("measured", (0.01,))))
    space = Space.of(scenario, ("allreduce",), (2,))
    assert space.batch is None
    assert space.rate is not None


def test_the_first_by_the_median_has_run_under_every_seed() -> None:
    made = planner(findings(workers=(2, 4)), 12.0)
    best = made.plan().best
    assert best is not None
    assert best.executed is not None
    assert best.seeds == len(made.search.all_seeds) + len(best.executed.seeds)


def test_a_seed_that_did_not_come_to_the_target_counts_as_the_slowest() -> None:
    found = findings(workers=(2,))
    missed = changed(came_in(3.0), reached=-1)
    found.trainings = {ONE: {0: came_in(1.0), 1: came_in(2.0), 2: missed}}
    choice = planner(found).choice(ONE)
    assert choice is not None
    assert (choice.reached, choice.seeds) == (2, 3)
    assert choice.seconds.middle == 2.0


def unmeasured(worker: pr.Worker, epochs: int = 1) -> None:
    x, y = data()
    model: Any = torch.nn.Linear(WIDTH, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for _ in range(epochs):
        for a, b in worker.batches((x, y), batch_size=32):
            optimizer.zero_grad()
            (model(a) - b).square().mean().backward()
            optimizer.step()


def test_a_metric_that_no_run_gives_is_reported_and_ends_the_search() -> None:
    scenario = Scenario("unmeasured", unmeasured, parse_target("accuracy=0.9"), NETWORK, fleet("cpu-core"))
    found = Findings(scenario, Objective(), Space.of(scenario, ("allreduce", "ssp"), (2,)), MeasureCache(None))
    turns = InTurn()
    plan = Planner(found, turns, turns.budget(1e6)).plan()
    assert "The JOB gives no value of accuracy: the JOB must give it" in sentences(plan)[0]
    assert turns.made == 0


def test_a_metric_by_another_name_is_refused_with_those_that_there_are() -> None:
    turns = InTurn()
    plan = planner(findings(("allreduce",), (2,), "accuracy=0.9"), 1e6, turns).plan()
    assert "The JOB gives no value of accuracy: the JOB gives loss" in sentences(plan)[0]
    assert turns.made == 0


def test_how_near_it_came_is_reported_where_nothing_came_to_the_target() -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {0: changed(came_in(3.0), reached=-1)}, OTHER: {0: changed(came_in(3.0), curve=[], reached=-1)}}
    assert "(the best was loss 0.01, with allreduce × 2): give a longer --budget" in sentences(planner(found).answer("over"))[0]


def test_a_further_seed_may_take_far_more_samples_where_there_is_time() -> None:
    found = findings(workers=(2,), target="loss=1e-6")
    found.trainings = {ONE: {0: came_in(1.0)}}
    search(found, 1e6).confirm()
    assert [run.limit for seed, run in found.trainings[ONE].items() if seed] == [found.steps(ONE, 300.0)] * 2


@pytest.mark.long
def test_what_needs_a_long_run_has_one_where_there_is_time() -> None:
    made = planner(findings(("allreduce", "fedavg"), (2,)), 60.0)
    plan = made.plan()
    assert any(each.system == "fedavg" for each in made.found.trainings)
    assert not [each for each in plan.refused if "time was up" in each.reason]


def test_no_memory_at_all_is_refused() -> None:
    with pytest.raises(CompositionError, match="leaves a worker none"):
        PlanRequest("loss=0.05", memory=0.0)


def test_runs_of_one_that_is_slower_are_not_called_first_without_a_word() -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {seed: came_in(2.0) for seed in range(3)}, OTHER: {0: came_in(1.8)}}
    first = sentences(planner(found).answer("over"))[0]
    assert "ssp took less under its one seed" in first


def test_one_seed_is_enough_where_the_bounds_lie_apart() -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {seed: came_in(2.0) for seed in range(3)}, OTHER: {0: came_in(0.4)}}
    assert planner(found).leading() == [OTHER, ONE]


def test_what_was_faster_than_one_machine_under_one_seed_is_said_to_be_doubtful() -> None:
    found = findings(workers=(2,))
    found.trainings = {ALONE: {seed: came_in(2.0) for seed in range(3)}, OTHER: {0: came_in(1.6)}}
    [first, *_] = sentences(planner(found).answer("over"))
    assert first.startswith("One machine alone")
    assert "took 0.8 of that, but under one seed only, which may be chance: give a longer --budget" in first
    found.trainings[OTHER] |= {seed: came_in(1.9) for seed in (0, 1, 2)}
    assert "within the error of virtual time" in sentences(planner(found).answer("over"))[0]


def test_of_two_that_take_equally_long_the_first_is_the_one_that_sends_less() -> None:
    found = findings(workers=(2,))
    for candidate, nbytes in ((ONE, 1e6), (OTHER, 1e3)):
        same = TrainedRun([CurvePoint(2.0, nbytes, 100.0, 0.01)], 0, 2.0, nbytes, 100.0, 20)
        found.trainings[candidate] = dict.fromkeys(range(3), same)
    assert planner(found).leading() == [OTHER, ONE]
    assert "the next system, allreduce, takes as long, and sends 1 MB instead of 1 kB" in sentences(planner(found).answer("over"))[0]


@pytest.mark.parametrize(("width", "lacks"), [(160, False), (100, True)])
def test_a_narrow_terminal_breaks_no_number_and_shows_what_it_lacks(width: int, lacks: bool) -> None:
    found = findings(workers=(2,))
    found.trainings = {ONE: {0: came_in(12.25)}, OTHER: {0: came_in(12.5)}}
    text = plan_text(planner(found).answer("over"), width)
    assert "12.2 s" in text or "12.3 s" in text
    assert ("Left out, as the terminal is narrow: memory" in text) is lacks


def test_one_worker_alone_with_another_rate_is_one_worker_alone() -> None:
    found = findings(("single", "allreduce"), (1, 2))
    alone = Candidate("single", 1)
    quicker = Candidate("single", 1, (), (("learning_rate", 0.1),))
    found.trainings = {alone: {0: came_in(2.0)}, quicker: {0: came_in(1.0)}}
    [first, *_] = sentences(planner(found).answer("over"))
    assert first.startswith("One machine alone: with learning_rate=0.1 it comes to loss 0.05 in 1 s")


def test_a_choice_is_run_as_it_was_planned() -> None:
    request = PlanRequest("loss=0.05", network="slow", devices="laptop", seed=3)
    command = request.invocation("train.py", ["--deep", "4"]).rehearsal(ONE)
    assert command == (
        "polyrhythm compare train.py --systems allreduce --workers 2 --seed 3 --on simulator --network slow --device laptop "
        "--to loss=0.05 -- --deep 4"
    )
    assert PlanRequest("loss=0.05", network="slow", devices=HERE).invocation("train.py").rehearsal(ONE) == ""
    plain = Invocation(None)
    assert plain.command(ONE) == ""
    assert plain.code(ONE) == 'pr.run(train, workers=2, strategy="allreduce", on=pr.Simulator(network, devices))'


def test_a_choice_that_needs_more_samples_than_the_job_has_is_run_for_more_epochs() -> None:
    scenario = Scenario("digits-mlp", load_workload("digits-mlp"), parse_target("accuracy=0.96"), NETWORK, fleet("cpu-core"))
    whole = scenario.samples(16)
    assert scenario.longer(0.9 * whole, 4, 16) == {}
    assert scenario.longer(2 * whole, 4, 16) == {"epochs": 20}


def test_kept_runs_are_those_of_the_file_of_the_training_function() -> None:
    assert source_of(least_squares)["job sha256"] == source_of(data_of_the_same_file())["job sha256"]
    assert source_of(least_squares) != source_of(unmeasured)
    exec("def train(worker): pass", space := {})
    with pytest.raises(CompositionError, match="is in none"):
        source_of(space["train"])


def data_of_the_same_file() -> Any:
    return planner
