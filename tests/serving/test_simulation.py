"""A site in virtual time: every request has one outcome, plans keep their promise, and the loop follows rates and losses."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import EXACT, MB, machines, random_site, straight

from polyrhythm.errors import CompositionError
from polyrhythm.serving import (
    AdmitAll,
    ArrivalProcess,
    BurstyArrivals,
    ControlRules,
    DeferredBatch,
    DutyTurns,
    EarlyDrop,
    EvenArrivals,
    FirstInFirstOut,
    LatencyProfile,
    LazyDrop,
    LeastCompletionTime,
    OfferedLoad,
    PlanningRules,
    PoissonArrivals,
    PowerOfTwoChoices,
    RecordedArrivals,
    RequestRouter,
    ServingMachine,
    ServingSession,
    SimulatedSite,
    SmoothWeighted,
    SteppedArrivals,
    plan,
    read_trace,
    simulate_serving,
)

RULES = PlanningRules(jitter=0.0)
ROUTERS = (SmoothWeighted(), PowerOfTwoChoices(), LeastCompletionTime())
PROCESSES = (EvenArrivals(40.0), PoissonArrivals(40.0), BurstyArrivals(40.0), SteppedArrivals(((0.0, 40.0), (5.0, 40.0))))


def site_of(
    seed: int, count: int, kinds: dict[str, float], loading: float = 0.0
) -> tuple[tuple[ServingSession, ...], tuple[ServingMachine, ...], tuple[LatencyProfile, ...]]:
    sessions, profiles = random_site(random.Random(seed), count, kinds, 0.05, 0.4)
    loaded = tuple(replace(each, loading=loading) for each in profiles)
    return tuple(sessions), tuple(each for kind in kinds for each in machines(2 * count, kind)), loaded


@pytest.mark.parametrize("batcher", [EarlyDrop(), LazyDrop(), FirstInFirstOut(), DeferredBatch()])
@pytest.mark.parametrize("router", ROUTERS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6), lost=st.booleans())
def test_every_request_gets_exactly_one_outcome(batcher: EarlyDrop, router: RequestRouter, seed: int, lost: bool) -> None:
    sessions, site, profiles = site_of(seed, 3, {"gpu": 1.0, "laptop": 3.0}, 0.5)
    losses = {site[0].name: 1.5} if lost else {}
    control = ControlRules() if seed % 2 else None
    load = OfferedLoad({one.name: BurstyArrivals(one.rate) for one in sessions}, 4.0, seed)
    played = simulate_serving(
        SimulatedSite(sessions, site, profiles, RULES, DutyTurns(batcher), router, AdmitAll(), control, losses, spread=0.1), load
    )
    assert [request.number for request, _ in played.requests] == list(range(len(played.requests)))
    for request, outcome in played.requests:
        assert outcome.finished >= request.arrival
    assert sum(each.offered for each in played.tally().values()) == len(played.requests)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kinds", [{"gpu": 1.0}, {"gpu": 1.0, "laptop": 4.0}])
def test_a_plan_keeps_its_promise_at_its_rates_and_never_exceeds_memory(seed: int, kinds: dict[str, float]) -> None:
    sessions, site, profiles = site_of(seed, 5, kinds)
    load = OfferedLoad({one.name: PoissonArrivals(one.rate) for one in sessions}, 10.0, seed)
    played = simulate_serving(SimulatedSite(sessions, site, profiles), load)
    assert min(each.good_rate for each in played.tally().values()) >= 0.99
    memory = {each.name: each.memory for each in site}
    assert all(nbytes <= memory[name] for name, nbytes in played.most_bytes.items())


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_without_reserve_keeps_its_promise_for_even_arrivals(seed: int) -> None:
    sessions, site, profiles = site_of(seed, 5, {"gpu": 1.0})
    load = OfferedLoad({one.name: EvenArrivals(one.rate) for one in sessions}, 10.0, seed)
    played = simulate_serving(SimulatedSite(sessions, site, profiles, EXACT), load)
    assert min(each.good_rate for each in played.tally().values()) >= 0.99


def test_the_same_seed_gives_the_same_outcomes_and_another_gives_others() -> None:
    sessions, site, profiles = site_of(1, 3, {"gpu": 1.0})
    settled, arrivals = SimulatedSite(sessions, site, profiles, spread=0.2), {one.name: PoissonArrivals(one.rate) for one in sessions}
    played = [simulate_serving(settled, OfferedLoad(arrivals, 2.0, seed)) for seed in (1, 1, 2)]
    assert played[0] == played[1]
    assert played[0].requests != played[2].requests


def good_at(batcher: EarlyDrop | LazyDrop, rate: float) -> float:
    """The part of 4 seconds of Poisson's requests that one machine answers in time; its optimum is 500 requests per second."""
    profile, site = straight("m", 0.001, 0.025), tuple(machines(1))
    first, _ = plan([ServingSession("s", "m", 0.1, 500.0)], site, [profile], None, EXACT)
    settled = SimulatedSite((ServingSession("s", "m", 0.1, rate),), site, (profile,), EXACT, DutyTurns(batcher), admission=AdmitAll())
    return simulate_serving(settled, OfferedLoad({"s": PoissonArrivals(rate)}, 4.0, 3), first).tally()["s"].good_rate


def test_early_drop_keeps_nearly_the_optimum_under_overload_and_lazy_drop_collapses() -> None:
    assert good_at(EarlyDrop(), 600.0) * 600 / 500 >= 0.90
    assert good_at(LazyDrop(), 600.0) * 600 / 500 <= 0.5


def test_a_drop_is_answered_when_it_is_decided_not_when_the_batch_ends() -> None:
    """In Triton a timeout of the queue is noticed only when the running batch ends."""
    profile = straight("m", 0.0, 0.1)
    session, site = ServingSession("s", "m", 0.25, 10.0), tuple(machines(1))
    first, _ = plan([ServingSession("s", "m", 0.25, 5.0)], site, [profile], None, EXACT)
    first = replace(first, machines=(replace(first.machines[0], slots=(replace(first.machines[0].slots[0], batch=1),)),))
    settled = SimulatedSite((session,), site, (profile,), EXACT, admission=AdmitAll())
    played = simulate_serving(settled, OfferedLoad({"s": RecordedArrivals((0.0, 0.001, 0.002, 0.003))}, 1.0), first)
    outcomes = [(type(outcome).__name__, round(outcome.finished, 3)) for _, outcome in played.requests]
    assert outcomes[:2] == [("Ok", 0.1), ("Ok", 0.2)]
    assert outcomes[2:] == [("Dropped", 0.152), ("Dropped", 0.153)]


@pytest.mark.long
def test_a_threefold_rate_is_served_within_two_epochs() -> None:
    sessions, site, profiles = site_of(2, 4, {"gpu": 1.0}, 3.0)
    arrivals: dict[str, ArrivalProcess] = {one.name: PoissonArrivals(one.rate) for one in sessions}
    first = sessions[0]
    arrivals[first.name] = SteppedArrivals(((0.0, first.rate), (30.0, 3 * first.rate)))
    played = simulate_serving(SimulatedSite(sessions, site, profiles, control=ControlRules()), OfferedLoad(arrivals, 120.0))
    assert len(played.plans) > 1
    assert played.tally(since=90.0)[first.name].good_rate >= 0.95


@pytest.mark.long
def test_a_rate_that_stays_within_five_percent_changes_no_plan() -> None:
    sessions, site, profiles = site_of(4, 4, {"gpu": 1.0}, 3.0)
    steady: dict[str, ArrivalProcess] = {
        one.name: SteppedArrivals(tuple((10.0 * i, one.rate * (1 + 0.05 * (-1) ** i)) for i in range(30))) for one in sessions
    }
    played = simulate_serving(SimulatedSite(sessions, site, profiles, control=ControlRules()), OfferedLoad(steady, 300.0))
    assert len(played.plans) == 1


def test_after_a_loss_requests_are_dropped_for_three_beacons_and_the_loads_at_most() -> None:
    sessions, site, profiles = site_of(1, 3, {"gpu": 1.0}, 0.5)
    settled = SimulatedSite(sessions, site, profiles, control=ControlRules(), losses={"gpu-00": 5.5})
    played = simulate_serving(settled, OfferedLoad({one.name: PoissonArrivals(one.rate) for one in sessions}, 15.0))
    assert [reason for _, reason, _ in played.plans] == ["first", "lost"]
    assert min(each.good_rate for each in played.tally(5.5, 8.5).values()) < 0.9
    lost = played.plans[0][2].on("gpu-00")
    assert lost is not None
    loads = len(lost.slots)  # one after the other, where one machine takes them all over
    assert min(each.good_rate for each in played.tally(5.5 + 3 + 1 + 0.5 * loads + 0.1).values()) >= 0.99


def test_the_burst_of_one_tenant_costs_that_tenant() -> None:
    sessions = (ServingSession("a", "m", 0.1, 100.0), ServingSession("b", "n", 0.1, 100.0))
    profiles = (straight("m", 0.001, 0.005), straight("n", 0.001, 0.005))
    load = OfferedLoad({"a": PoissonArrivals(500.0), "b": PoissonArrivals(100.0)}, 8.0)
    played = simulate_serving(SimulatedSite(sessions, tuple(machines(1)), profiles), load).tally()
    assert played["b"].good_rate >= 0.99
    assert played["a"].rejected > 0.5 * played["a"].offered
    assert played["a"].good + played["a"].rejected >= 0.99 * played["a"].offered


def test_routing_by_cost_finishes_sooner_than_by_count_on_machines_of_four_to_one() -> None:
    profiles = (straight("m", 0.002, 0.006), straight("m", 0.008, 0.024, "laptop"))
    site = (*machines(1), *machines(1, "laptop"))
    session = ServingSession("s", "m", 60.0, 700.0)
    first, _ = plan([session], site, profiles, None, EXACT)
    if len(first.machines) == 1:
        first, _ = plan([replace(session, rate=2000.0)], site, profiles, None, EXACT)
    load = OfferedLoad({"s": RecordedArrivals(tuple(index * 1e-6 for index in range(1000)))}, 1.0)
    spans = []
    for router in (PowerOfTwoChoices(), LeastCompletionTime()):
        settled = SimulatedSite((session,), site, profiles, EXACT, DutyTurns(FirstInFirstOut()), router, AdmitAll())
        spans.append(simulate_serving(settled, load, first).makespan)
    assert spans[1] <= 0.85 * spans[0]


def test_smooth_weights_give_every_machine_its_part_without_runs() -> None:
    from numpy.random import default_rng

    from polyrhythm.serving import Destination

    ends = [Destination("a", 5.0, 0, 0.0, 0.01, 0.01), Destination("b", 1.0, 0, 0.0, 0.01, 0.01), Destination("c", 1.0, 0, 0.0, 0.01, 0.01)]
    credits, order = {}, ""
    for _ in range(14):
        routed = SmoothWeighted().route(ends, credits, 1.0, default_rng(0))
        credits, order = dict(routed.credits), order + "abc"[routed.index]
    assert order == "aabacaa" * 2
    late = [replace(ends[0], seconds=2.0), *ends[1:]]
    assert SmoothWeighted().route(late, {}, 1.0, default_rng(0)).index == 1


def test_old_models_leave_first_where_both_plans_do_not_fit_in_memory() -> None:
    from polyrhythm.serving.transition import held_meanwhile, interim

    profiles = [straight("m", 0.001, 0.01, nbytes=5000 * MB), straight("n", 0.001, 0.01, nbytes=5000 * MB)]
    before, _ = plan([ServingSession("a", "m", 0.1, 50.0)], machines(1), profiles)
    after, _ = plan([ServingSession("b", "n", 0.1, 50.0)], machines(1), profiles)
    meanwhile = interim(before, after, frozenset())
    assert meanwhile.machines == ()
    assert held_meanwhile(meanwhile, after) == {"gpu-00": 5000 * MB}


@pytest.mark.parametrize("process", PROCESSES)
def test_arrivals_come_in_order_at_their_rate_and_again_with_the_same_seed(process: ArrivalProcess) -> None:
    from numpy.random import default_rng

    moments = process.times(60.0, default_rng(3))
    assert moments == sorted(moments) == process.times(60.0, default_rng(3))
    assert all(0 <= moment < 60 for moment in moments)
    assert len(moments) == pytest.approx(2400, rel=0.15)


def test_a_trace_file_is_read_by_session(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("seconds,session\n0.5,a\n0.1,b\n0.2,a\n")
    assert read_trace(file) == {"a": RecordedArrivals((0.5, 0.2)), "b": RecordedArrivals((0.1,))}
    file.write_text("when,who\n1,2\n")
    with pytest.raises(CompositionError, match="It needs the columns seconds and session"):
        read_trace(file)
    with pytest.raises(CompositionError, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


@pytest.mark.parametrize(("part", "good"), [(0.95, True), (2.5, False)])
def test_an_entrance_keeps_the_planned_rate_and_is_what_breaks_beyond_it(part: float, good: bool) -> None:
    rules = PlanningRules(network=0.03, jitter=0.0, entrance=0.008)
    rate = part * rules.entrance_rate
    session, profile = ServingSession("s", "m", 0.2, 0.9 * rules.entrance_rate), straight("m", 0.001, 0.02)
    site = SimulatedSite((session,), tuple(machines(3)), (profile,), rules, admission=AdmitAll())
    played = simulate_serving(site, OfferedLoad({"s": PoissonArrivals(rate)}, 20.0, 3)).tally()["s"]
    assert (played.good_rate >= 0.99) == good


def test_a_profile_with_a_spread_is_played_quicker_than_it_promises() -> None:
    session, load = ServingSession("s", "m", 0.2, 100.0), OfferedLoad({"s": PoissonArrivals(100.0)}, 5.0, 3)
    usual = [
        simulate_serving(SimulatedSite((session,), tuple(machines(1)), (replace(straight("m", 0.001, 0.02), spread=each),), RULES), load)
        for each in (0.0, 0.6)
    ]
    assert usual[1].tally()["s"].percentile(50) < 0.9 * usual[0].tally()["s"].percentile(50)  # type: ignore[operator]
