"""The parts of a planner: what is limited, extrapolated, predicted, drawn and changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import polyrhythm as pr
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.metrics import Target, parse_target
from polyrhythm.core.training.run import attempt
from polyrhythm.errors import CompositionError, UnknownNameError
from polyrhythm.hardware import network as networks
from polyrhythm.systems import SYSTEMS, find
from polyrhythm.tools.planner.answer import Choice, Plan
from polyrhythm.tools.planner.candidate import Candidate, first_of_each
from polyrhythm.tools.planner.circumstances import with_links
from polyrhythm.tools.planner.curves import Race, samples_needed
from polyrhythm.tools.planner.forecast import Interval, deviation, forecast
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.measured import CurvePoint, Taken, TrainedRun
from polyrhythm.tools.planner.memory import activations
from polyrhythm.tools.planner.objective import Objective, Prices, Spent
from polyrhythm.tools.planner.plan import PlanRequest, workers_of
from polyrhythm.tools.planner.space import RATE_FACTORS, Space, options_of
from polyrhythm.tools.planner.table import plan_text
from polyrhythm.tools.planner.tasks import Sparing

from .jobs import NETWORK, WIDTH, findings, least_squares, planner

SHARING = {name for name in SYSTEMS if find(name).shares_memory}


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_a_limited_run_ends_well_under_every_system(system: str) -> None:
    strategy = find(system)
    limited = Limited(least_squares, 5, strategy.chooses)
    tried = attempt(limited, workers=4, strategy=strategy, on=pr.Simulator(NETWORK))
    assert tried.error is None
    assert tried.outcome.summary.steps >= 5
    assert limited.noted.held >= 2 * 4 * WIDTH  # its weights and gradients at least


def test_a_limited_run_is_the_beginning_of_the_whole_one() -> None:
    seen: list[list[torch.Tensor]] = []
    for train in (least_squares, Limited(least_squares, 10)):
        weights: list[torch.Tensor] = []

        def followed(worker: pr.Worker, train: Any = train, weights: list[torch.Tensor] = weights) -> None:
            whole = worker.batches

            def batches(*given: Any, **named: Any) -> Any:
                for batch in whole(*given, **named):
                    if worker.rank == 0:
                        weights.append(next(worker.attached[0].model.parameters()).detach().clone())
                    yield batch

            worker.batches = batches  # type: ignore[method-assign, assignment]
            train(worker)

        pr.run(followed, workers=2, strategy="allreduce", on=pr.Simulator(NETWORK))
        seen.append(weights)
    whole, part = seen
    assert len(part) == 10
    assert all(torch.equal(one, other) for one, other in zip(whole, part, strict=False))


def test_activations_grow_with_the_batch() -> None:
    one, two = (
        activations(Limited(lambda worker, size=size: least_squares(worker, batch_size=size), 2))  # type: ignore[misc]
        for size in (8, 16)
    )
    assert 1.5 * one < two


@given(st.floats(0.2, 1.0), st.floats(0.5, 5.0), st.floats(1.2, 8.0))
def test_a_power_law_is_extrapolated_to_about_its_target(power: float, scale: float, factor: float) -> None:
    samples = [100.0 * 1.09**k for k in range(40)]
    curve = [CurvePoint(each, 0.0, each, scale * each**-power) for each in samples]
    needed = samples[-1] * factor
    target = Target("loss", scale * needed**-power)
    found = samples_needed(TrainedRun(curve, -1, 1.0, 1.0, samples[-1], 40), target)
    assert abs(math.log(found / needed)) <= (0.15 if factor < 2 else 0.9)  # what is far ahead is told with caution


def test_a_curve_that_rises_never_comes_to_a_lower_target() -> None:
    curve = [CurvePoint(k, 0.0, k, 1.0 + 0.1 * k) for k in range(1, 20)]
    assert samples_needed(TrainedRun(curve, -1, 1.0, 1.0, 20.0, 20), Target("loss", 0.5)) == math.inf


def test_efficiency_is_that_of_the_slower_of_two_curves() -> None:
    fast = [CurvePoint(k, 0.0, k, k / 100) for k in range(1, 50)]
    slow = [CurvePoint(k, 0.0, k, k / 200) for k in range(1, 50)]
    race = Race([fast, slow], parse_target("accuracy=0.4"))
    assert race.efficiency(fast) == 1.0
    assert race.efficiency(slow) == pytest.approx(0.5, abs=0.03)
    assert race.needed == 40
    assert race.undecided([CurvePoint(0.0, 0.0, 0.0, 0.1), CurvePoint(1.0, 0.0, 1.0, 0.1)])


def test_nine_of_ten_further_runs_lie_between_the_bounds() -> None:
    draw = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        groups = {str(k): list(np.exp(draw.normal(k, 0.3, 3))) for k in range(3)}
        bounds = forecast(groups["0"], *deviation(groups))
        inside += bounds.low <= math.exp(draw.normal(0, 0.3)) <= bounds.high
    assert inside >= 0.85 * 400


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_every_option_that_is_tried_can_be_composed_or_is_refused_with_a_reason(system: str) -> None:
    found = findings((system,))
    for key, values in options_of(system).items():
        for value in values[1:]:
            reason = found.impossible(Candidate(system, 4, ((key, value),)))
            assert reason == "" or reason[0].isprintable()


def test_options_are_known_by_the_names_that_papers_have_for_them() -> None:
    assert list(options_of("easgd")) == ["period", "servers"]
    assert list(options_of("li-ps")) == ["slack", "servers"]
    assert not options_of("dl4j-averaging")
    assert list(options_of("paine")) == ["servers"]


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
def test_a_neighbour_differs_in_one_thing_by_a_factor_that_is_tried(factor: float) -> None:
    space = Space(("allreduce",), (2, 4, 8), ("lr", 0.1))
    one = Candidate("allreduce", 4, (), () if factor == 1.0 else (("lr", 0.1 * factor),))
    neighbours = list(space.neighbours(one))
    assert {each.workers for each in neighbours} == {2, 4, 8}
    for each in neighbours:
        assert (each.workers != one.workers) + (each.settings != one.settings) == 1
        assert any(space.factors(each)["rate"] == pytest.approx(known) for known in RATE_FACTORS)


@pytest.mark.parametrize("name", ["lan", "slow", "wan-11", "home"])
def test_faster_links_are_those_of_the_network_times_a_factor(name: str) -> None:
    network = networks.load(name)
    latency, bandwidth = network.slowest()
    changed = with_links(network, bandwidth=10.0, latency=0.5).slowest()
    assert changed == pytest.approx((latency / 2, bandwidth * 10))


@pytest.mark.parametrize("system", ["allreduce", "ssp", "adpsgd", "sparknet", "diloco", "fedavg", "downpour", "strom"])
def test_a_run_that_costs_too_much_ends_at_one_step_and_is_evaluated(system: str) -> None:
    found, candidate = findings((system,), (4,)), Candidate(system, 4)
    most = 0.3 * found.task(candidate, 0, 60, math.inf, math.inf).attempt(None).outcome.time
    tried = found.task(candidate, 0, 60, most, math.inf).attempt(None)
    training = TrainedRun.of(tried, found.scenario.target, 60)
    last = {event.actor: event.clock for event in tried.outcome.events if isinstance(event, Stepped)}
    assert tried.error is None
    assert training.cut
    assert len(training.curve) >= 2
    assert training.seconds >= most
    assert max(last.values()) < 60
    assert system == "fedavg" or len(set(last.values())) == 1


@given(count=st.integers(1, 60), target=st.integers(0, 80))
def test_the_first_moment_that_meets_a_rising_target_is_found_by_fewer_evaluations(count: int, target: int) -> None:
    looked: dict[int, float] = {}

    def at(place: int) -> dict[str, float]:
        looked[place] = float(place)
        return {"reward": float(place)}

    Sparing(parse_target(f"reward={target}"))(count, at)
    assert 0 in looked
    assert target in looked or target >= count
    assert len(looked) <= 2 + count / 3 or target < count


def test_each_system_is_listed_at_the_place_of_its_best() -> None:
    ordered = [Candidate("ssp", 2), Candidate("easgd", 2), Candidate("ssp", 4), Candidate("sparknet", 2), Candidate("easgd", 4)]
    assert first_of_each(ordered) == [Candidate("ssp", 2), Candidate("easgd", 2), Candidate("sparknet", 2)]


def test_samples_are_those_that_each_worker_had_taken_by_then() -> None:
    taken = Taken([Stepped(1.0, "worker/0", 1, 8, 0), Stepped(3.0, "worker/0", 3, 24, 0), Stepped(2.0, "worker/1", 1, 8, 0)])
    assert [taken.by(moment) for moment in (0.5, 1.0, 2.0, math.inf)] == [0.0, 8.0, 24.0, 32.0]


def test_costs_are_seconds_bytes_money_and_joules() -> None:
    spent, prices = Spent(7200.0, 2e9, 4), Prices(worker_hour=0.5, gigabyte=0.1, watts=50)
    costs = {name: Objective(name, prices).cost(spent) for name in ("time", "bytes", "money", "energy")}
    assert costs == {"time": 7200.0, "bytes": 2e9, "money": pytest.approx(4.2), "energy": pytest.approx(1.44e6)}


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 1e6)), min_size=1, max_size=20))
def test_no_candidate_beats_one_of_the_front_in_both(places: list[tuple[float, float]]) -> None:
    choices = [
        Choice(str(k), "", 1, {}, {}, 1, 1, Interval(x, x, x), y, 1.0, x, None, None, None, None, 1.0, "", "", "")
        for k, (x, y) in enumerate(places)
    ]
    plan = Plan("", "", "time", "", "", [2], [], None, [], [], [], 0, 0, 0.0, "", [], choices)
    front = plan.front("seconds", "nbytes")
    assert front
    for one in front:
        assert not any(other.seconds.middle < one.seconds.middle and other.nbytes < one.nbytes for other in choices)


@pytest.mark.parametrize(("text", "numbers"), [("2..8", (2, 4, 8)), ("3..12", (3, 4, 8, 12)), ("2,6", (2, 6)), ("5", (5,)), ("4..4", (4,))])
def test_numbers_of_workers_are_read(text: str, numbers: tuple[int, ...]) -> None:
    assert workers_of(text) == numbers


@pytest.mark.parametrize("text", ["8..2", "two", "0..4", "2..", ""])
def test_other_numbers_of_workers_are_refused(text: str) -> None:
    with pytest.raises(CompositionError, match="workers"):
        PlanRequest("loss=1", workers=workers_of(text))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"workers": (1,)}, CompositionError),
        ({"budget": 0.0}, CompositionError),
        ({"jobs": 0}, CompositionError),
        ({"objective": "speed"}, UnknownNameError),
        ({"objective": "money"}, CompositionError),
        ({"systems": ["allredcue"]}, UnknownNameError),
        ({"network": "sloww"}, UnknownNameError),
        ({"pool": "cloud"}, UnknownNameError),
        ({"target": "good"}, CompositionError),
    ],
)
def test_what_cannot_be_planned_is_refused_before_anything_runs(changed: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        PlanRequest(**{"target": "loss=1", **changed})


def test_a_setting_that_the_job_does_not_have_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="momentun"):
        pr.plan(least_squares, "loss=0.05", network=NETWORK, settings={"momentun": 0.9}, budget=1.0, jobs=1)


def test_what_no_run_reached_is_marked_as_extrapolated() -> None:
    found = findings(("allreduce", "sparknet"), (2,), target="loss=0.05")
    made = planner(found)
    made.search.make([(Candidate(system, 2), 0, 24, math.inf) for system in found.space.systems], 1.0)
    plan = made.answer("the time was up")
    assert plan.best is not None
    assert plan.best.extrapolated
    assert "No run came to loss 0.05" in plan_text(plan)
