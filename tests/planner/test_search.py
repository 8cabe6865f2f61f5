"""A search: what it finds, what it keeps, and that it can be stopped."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import polyrhythm as pr
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.hardware.network import Network
from polyrhythm.tools.planner.answer import INTERRUPTED
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.findings import LEEWAY
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.objective import Objective, Prices
from polyrhythm.tools.planner.verify import Verification
from polyrhythm.tools.planner.words import sentences

from .jobs import NETWORK, InTurn, findings, least_squares, planner, search


def test_the_first_choice_is_near_the_best_of_an_exhaustive_grid() -> None:
    made = planner(findings(workers=(2,)))
    plan = made.plan()
    assert plan.best is not None
    whole = findings(workers=(2,))
    grid = [
        Candidate(system, 2, (), settings)
        for system in whole.space.systems
        for settings in [(), (("learning_rate", 0.1),), (("learning_rate", 0.025),), (("batch_size", 4),), (("batch_size", 16),)]
    ]
    search(whole).make(((each, 0, 400, LEEWAY * whole.best) for each in grid), 1.0)
    chosen = Candidate(plan.best.system, plan.best.workers, tuple(plan.best.options.items()), tuple(plan.best.settings.items()))
    assert made.found.cost_of(chosen) <= 1.2 * whole.best


@pytest.mark.long
def test_what_is_predicted_is_what_a_run_takes() -> None:
    plan = pr.plan(least_squares, "loss=0.05", network=NETWORK, workers=(2, 4), systems=["allreduce", "sparknet"], budget=4.0, jobs=1)
    best = plan.best
    assert best is not None
    settings = {"epochs": 40, **best.settings}
    run = pr.run(
        lambda worker: least_squares(worker, **settings), workers=best.workers, strategy=best.strategy, on=pr.Simulator(NETWORK), seed=7
    )
    reached = parse_target("loss=0.05").first_reached(run.outcome)
    assert reached is not None
    assert best.seconds.low <= reached.time <= best.seconds.high


@pytest.mark.parametrize("seconds", [0.8, 1.2])
def test_a_search_of_a_dozen_runs_leaves_time_for_further_seeds_of_its_first_choice(seconds: float) -> None:
    made = planner(findings(("allreduce", "ssp", "adpsgd", "sparknet")), seconds)
    best = made.plan().best
    assert best is not None
    assert best.seeds >= 3
    assert made.budget.spent() <= 1.25 * seconds


@pytest.mark.parametrize("name", ["time", *(pytest.param(name, marks=pytest.mark.long) for name in ("money", "bytes", "energy"))])
def test_choices_are_ordered_by_the_objective(name: str) -> None:
    found = findings(workers=(2,), objective=Objective(name, Prices(worker_hour=1.0, gigabyte=10.0)))
    plan = planner(found).plan()
    reached = [choice.cost for choice in plan.choices if not choice.extrapolated and choice.seeds > 1]
    assert reached
    assert reached == sorted(reached)


@pytest.mark.long
def test_the_plan_states_what_it_waits_for_and_what_would_help() -> None:
    plan = planner(findings(workers=(2,)), 12.0).plan()
    answer = " ".join(sentences(plan))
    assert plan.best is not None
    assert f", {plan.best.seeds} seeds)" in answer
    assert plan.seeds_used[: len(plan.seeds)] == plan.seeds
    assert "Of the time of" in answer
    assert "What would have to change" in answer


def test_systems_that_cannot_be_run_are_named_with_the_reason() -> None:
    plan = planner(findings(("allreduce", "hogwild", "actors"), (2,)), 3.0).plan()
    reasons = {refusal.name: refusal.reason for refusal in plan.refused}
    assert "same memory" in reasons["hogwild × 2"]


def test_a_worker_may_not_need_more_than_the_memory() -> None:
    found = findings(("allreduce", "ssp"), (2,), most_bytes=700.0)
    plan = planner(found, 3.0).plan()
    assert plan.choices == []
    assert all("more than" in refusal.reason for refusal in plan.refused)


@pytest.mark.long
def test_first_runs_that_take_long_do_not_end_a_search() -> None:
    plan = planner(findings(("allreduce", "sparknet"), (2,)), turns=InTurn(warming=1.0)).plan()
    assert plan.best is not None
    assert not plan.best.extrapolated


def test_a_system_whose_runs_take_long_by_the_clock_does_not_keep_the_others_waiting() -> None:
    turns = InTurn(slow={"ssp": 50.0})
    made = planner(findings(("allreduce", "ssp", "sparknet", "diloco"), (2,)), turns=turns)
    plan = made.plan()
    [first, *_] = [steps for system, steps in turns.order if system == "ssp"]
    assert first < 15 <= max(steps for system, steps in turns.order if system == "sparknet")
    assert plan.best is not None
    assert plan.best.system != "ssp"


def test_the_best_is_drawn_with_other_numbers_of_workers_and_rates() -> None:
    made = planner(findings(("allreduce", "sparknet"), (2, 4, 8)), 12.0)
    best = made.plan().best
    assert best is not None
    tried = {(each.workers, dict(each.settings).get("learning_rate")) for each in made.found.trainings if each.system == best.system}
    assert {workers for workers, _ in tried} == {2, 4, 8}
    assert len({rate for _, rate in tried}) >= 3


@pytest.mark.long
def test_the_search_goes_on_until_a_system_comes_to_the_target() -> None:
    turns = InTurn(warming=1.2)  # of 5 seconds: more than half are over when longer runs begin
    made = planner(findings(("allreduce", "ssp", "sparknet", "diloco"), (2,), "loss=0.005"), 5.0, turns)
    best = made.plan().best
    assert best is not None
    assert not best.extrapolated


def test_where_no_run_has_the_time_to_come_to_the_target_runs_are_as_long_as_there_is_time() -> None:
    turns = InTurn(slow={"allreduce": 300.0})
    made = planner(findings(("single", "allreduce"), (1, 2), "loss=1e-5"), 5.0, turns)
    made.plan()
    [training] = [made.found.training(each) for each in made.found.trainings if each.system == "allreduce"][:1]
    assert training is not None
    assert training.samples > 0
    assert turns.seconds < 12.0


def test_draws_leave_the_best_time_for_a_further_seed() -> None:
    plan = planner(findings(("allreduce",), (2,)), turns=InTurn(slow={"allreduce": 200.0})).plan()  # a run takes most of the time
    assert plan.best is not None
    assert plan.best.seeds > 1
    assert plan.ended == "the time was up"


def test_an_interruption_returns_what_is_known() -> None:
    plan = planner(findings(), turns=InTurn(stop=9)).plan()
    assert plan.ended == INTERRUPTED
    assert plan.runs == 9


@pytest.mark.long
def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    first = planner(findings(workers=(2,), cache=MeasureCache(tmp_path)), turns=InTurn(stop=6))
    first.plan()
    again = planner(findings(workers=(2,), cache=MeasureCache(tmp_path)), 5.0)
    again.plan()
    assert again.found.kept >= 3
    known = first.found.trainings
    assert all(again.found.cost_of(each) == first.found.cost_of(each) for each in known if known[each][0].end is not None)


def test_a_damaged_record_is_measured_again(tmp_path: Path) -> None:
    found = findings(cache=MeasureCache(tmp_path))
    candidate = Candidate("allreduce", 2)
    search(found).make([(candidate, 0, 8, math.inf)], 1.0)
    for file in tmp_path.rglob("*.json"):
        file.write_bytes(file.read_bytes()[:20])
    fresh = findings(cache=MeasureCache(tmp_path))
    search(fresh).make([(candidate, 0, 8, math.inf)], 1.0)
    assert (fresh.runs, fresh.kept) == (1, 0)


def test_another_network_is_measured_anew() -> None:
    here = findings()
    there = here.scenario.elsewhere(network=Network.uniform("narrow", "2 Mbit/s", "5 ms"))
    assert here.scenario.key(Candidate("allreduce", 2)) != there.key(Candidate("allreduce", 2))


@pytest.mark.parametrize("factor", [pytest.param(1.0, marks=pytest.mark.long), 3.0])
def test_measured_steps_correct_the_prediction(factor: float) -> None:
    made = planner(findings(("ssp", "sparknet"), (2,)), 5.0)
    plan = made.plan()
    before = {choice.name: choice.seconds.middle for choice in plan.choices}
    measured: list[str] = []

    def timed(train: object, workers: int, strategy: pr.Strategy) -> pr.hardware.Profile:
        measured.append(strategy.name)
        drift = 1.1 ** ((len(measured) - 1) // 2)  # the machine becomes slower, but not between a system's steps and those without it
        return pr.hardware.Profile("measured", (0.1 * drift * (factor if strategy.name == "sparknet" else 1),))

    checked = Verification(made.found, InTurn(), lambda name, problem: pytest.fail(str(problem)), timed)
    corrected = checked.correct(plan, made.contenders(3))
    assert (measured[::2], sorted(measured[1::2])) == (["apart", "apart"], ["sparknet", "ssp"])
    factors = {choice.system: choice.corrected for choice in corrected.choices}
    assert factors["sparknet"] == pytest.approx(1.0) if factor == 1.0 else 1.0 < factors["sparknet"] <= 1.1 * factor
    watts = Prices().power()
    assert all(choice.energy == pytest.approx(watts * choice.workers * choice.seconds.middle) for choice in corrected.choices)
    assert [choice.cost for choice in corrected.choices] == sorted(choice.cost for choice in corrected.choices)
    assert {choice.name: choice.seconds.middle / (choice.corrected or 1.0) for choice in corrected.choices} == pytest.approx(before)


def test_a_choice_that_costs_far_more_as_measured_is_broken_off_and_has_no_further_seeds() -> None:
    made = planner(findings(("ssp", "sparknet"), (2,)), 20.0)
    plan = made.plan()
    first, slow = (choice for choice in made.contenders(3) if not choice.is_alone)

    def timed(train: object, workers: int, strategy: pr.Strategy) -> pr.hardware.Profile:
        return pr.hardware.Profile("measured", (0.1 * (50.0 if strategy.name == slow.system else 1.0),))

    runs = InTurn()
    checked = Verification(made.found, runs, lambda name, problem: pytest.fail(str(problem)), timed).correct(plan, made.contenders(3))
    made_of = [system for system, _ in runs.order]
    assert (made_of.count(first.system), made_of.count(slow.system)) == (len(plan.seeds), 1)
    [late] = [choice for choice in checked.choices if choice.system == slow.system]
    assert late.corrected is not None
    assert late.cost == checked.choices[-1].cost > 2 * checked.choices[0].cost
    assert late.seconds.middle == pytest.approx(late.corrected * slow.seconds.middle)
    assert 2.0 < late.corrected <= 55.0


def test_a_map_has_two_systems_also_where_the_search_was_sure_after_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyrhythm.tools.planner.search.SURE", 0.0)
    made = planner(findings(("allreduce", "sparknet", "ssp"), (2,)), 60.0)
    made.plan()
    assert made.search.ended
    together = {each.system for each in made.found.ranked() if not each.is_alone}
    [bandwidth, latency] = made.maps(30.0)
    assert len(together) < 2 <= len(bandwidth.systems)
    assert bandwidth.cells
    assert latency.cells


def test_a_choice_that_was_only_timed_says_whose_curve_it_has() -> None:
    made, run, timed = (
        planner(findings(systems=("allreduce", "direct"), workers=(2,)), 60.0),
        Candidate("allreduce", 2),
        Candidate("direct", 2),
    )
    made.search.make([(ALONE, 0, 64, math.inf), (run, 0, 400, math.inf), (timed, 0, 8, math.inf)], 1.0)
    own, other = made.choice(run), made.choice(timed)
    assert own is not None
    assert other is not None
    assert (own.reached, own.shared, own.like) == (1, 0, "")
    assert (other.reached, other.shared, other.like) == (1, 1, run.name)
