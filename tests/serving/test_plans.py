"""Plans: objectives and memory are kept, few machines are used, little moves, and what cannot be served is refused with numbers."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import EXACT, MB, fewest_machines, holds, keeps, least_cost, machines, random_site, straight

from polyrhythm.errors import CompositionError
from polyrhythm.serving import LatencyProfile, PlanningRules, ServingMachine, ServingPlan, ServingSession, if_lost, plan, weak_points
from polyrhythm.serving.duty_cycle import demands_of, fit
from polyrhythm.serving.serving_plan import Demand
from polyrhythm.serving.weak_points import headroom

MIXED = {"gpu": 1.0, "laptop": 4.0}


def check(made: ServingPlan, sessions: list[ServingSession]) -> None:
    """The inequalities of every machine, and that every rate is placed or named as unserved."""
    for each in made.machines:
        assert holds(each.machine, demands_of(each), each.duty)
        assert each.occupancy <= 1 + 1e-9
        assert each.nbytes <= each.machine.memory
    left = {one.session: one.rate for one in made.unserved}
    for one in sessions:
        assert made.capacity(one.name) + left.get(one.name, 0.0) == pytest.approx(one.rate, rel=1e-4, abs=1e-4)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(0, 6), st.integers(0, 6))
def test_every_plan_keeps_every_objective_and_accounts_for_every_rate(seed: int, count: int, fast: int, slow: int) -> None:
    sessions, profiles = random_site(random.Random(seed), count, MIXED, 0.05, 2.0)
    site = [*machines(fast), *machines(slow, "laptop", 4000 * MB)]
    made, difference = plan(sessions, site, profiles, None, EXACT)
    check(made, sessions)
    assert set(difference.loads) == set(made.placements)
    assert not difference.unloads
    assert plan(sessions, site, profiles, None, EXACT)[0] == made


@pytest.mark.parametrize("seed", range(12))
def test_machines_of_one_kind_are_as_few_as_the_exact_optimum_or_one_more(seed: int) -> None:
    sessions, profiles = random_site(random.Random(seed), 3 + seed % 5, {"gpu": 1.0})
    made, _ = plan(sessions, machines(len(sessions)), profiles, None, EXACT)
    assert made.unserved == ()
    assert len(made.machines) <= fewest_machines(sessions, profiles, machines(1)[0]) + 1


@pytest.mark.parametrize("seed", range(8))
def test_unequal_machines_cost_as_little_as_the_exact_optimum_or_one_machine_more(seed: int) -> None:
    sessions, profiles = random_site(random.Random(100 + seed), 5, MIXED, 0.05, 0.2)
    site = [*machines(2, cost=3.0), *machines(5, "laptop")]
    made, _ = plan(sessions, site, profiles, None, EXACT)
    optimum = least_cost(sessions, profiles, site)  # of whole sessions; a plan may divide them
    assert made.unserved == ()
    assert made.cost <= optimum + 1
    check(made, sessions)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_a_duty_cycle_is_found_wherever_one_exists(seed: int, count: int) -> None:
    sessions, profiles = random_site(random.Random(seed), count, {"gpu": 1.0}, 0.05, 0.5)
    demands = [Demand(one.name, one.model, one.rate, one.slo, profile) for one, profile in zip(sessions, profiles, strict=True)]
    machine = machines(1, memory=6000 * MB)[0]
    found = fit(machine, demands)
    assert (found is not None) <= keeps(machine, demands)
    if count <= 2:  # with more, only the longest cycles are looked at
        assert (found is not None) == keeps(machine, demands)


def test_memory_is_a_constraint_of_packing() -> None:
    """In the published code of Nexus memory is recorded and never compared."""
    sessions = [ServingSession(f"s{i}", f"m{i}", 0.2, 10.0) for i in range(4)]
    profiles = [straight(f"m{i}", 0.001, 0.004, nbytes=3000 * MB) for i in range(4)]
    roomy, _ = plan(sessions, machines(4, memory=12000 * MB), profiles, None, EXACT)
    tight, _ = plan(sessions, machines(4, memory=6000 * MB), profiles, None, EXACT)
    assert (len(roomy.machines), len(tight.machines)) == (1, 2)


def test_a_duty_cycle_is_longer_than_its_batches_where_there_is_time() -> None:
    """In the published code of Nexus the execution cycle is copied into the duty cycle, and a machine never waits for a batch."""
    made, _ = plan([ServingSession("s", "m", 0.2, 50.0)], machines(1), [straight("m", 0.001, 0.01)], None, EXACT)
    [only] = made.machines
    assert only.duty > sum(slot.seconds for slot in only.slots)
    assert only.slots[0].batch == round(only.duty * 50.0)


def test_machines_are_emptied_into_others_when_rates_fall() -> None:
    """In the published code of Nexus consolidation is commented out."""
    profiles = [straight(f"m{i}", 0.001, 0.004) for i in range(3)]
    busy = [ServingSession(f"s{i}", f"m{i}", 0.1, 500.0) for i in range(3)]
    before, _ = plan(busy, machines(3), profiles, None, EXACT)
    quiet = [replace(one, rate=30.0) for one in busy]
    after, difference = plan(quiet, machines(3), profiles, before, EXACT)
    assert (len(before.machines), len(after.machines)) == (3, 1)
    assert len(difference.loads) == 2


def test_what_fits_stays_where_it_is() -> None:
    sessions, profiles = random_site(random.Random(5), 8, {"gpu": 1.0}, 0.1, 0.4)
    before, _ = plan(sessions, machines(8), profiles)
    nearly = [replace(one, rate=one.rate * 1.02) for one in sessions]
    after, difference = plan(nearly, machines(8), profiles, before)
    assert len(difference.loads) <= 1
    assert after.unserved == ()


def test_the_sessions_of_a_lost_machine_move_and_the_others_stay() -> None:
    sessions, profiles = random_site(random.Random(7), 6, {"gpu": 1.0}, 0.2, 0.5)
    site = machines(6)
    before, _ = plan(sessions, site, profiles)
    lost = before.machines[0].machine.name
    after, difference = plan(sessions, [each for each in site if each.name != lost], profiles, before)
    assert after.unserved == ()
    moved = {slot.session for slot in before.machines[0].slots}
    assert {machine for machine, _ in difference.unloads} == {lost}
    assert len(difference.loads) == len(moved)


def test_a_session_that_no_machine_meets_is_refused_with_the_smallest_objective() -> None:
    profile = straight("m", 0.002, 0.02)
    made, _ = plan([ServingSession("s", "m", 0.03, 10.0)], machines(1), [profile])
    [refused] = made.unserved
    assert refused.smallest_slo == pytest.approx(2 * 0.022 + 0.004)
    assert "the smallest objective is 48 ms" in refused.reason
    again, _ = plan([ServingSession("s", "m", refused.smallest_slo + 1e-9, 10.0)], machines(1), [profile])
    assert again.unserved == ()


@pytest.mark.parametrize(
    ("profiles", "reason"),
    [([], "has no profile on any kind of machine"), ([straight("m", 0.001, 0.01, nbytes=9000 * MB)], "more than any machine has")],
)
def test_a_session_without_a_profile_or_memory_is_refused(profiles: list[LatencyProfile], reason: str) -> None:
    made, _ = plan([ServingSession("s", "m", 0.1, 10.0)], machines(1), profiles)
    assert reason in made.unserved[0].reason
    assert made.machines == ()


def test_too_much_work_is_served_in_part() -> None:
    made, _ = plan([ServingSession("s", "m", 0.1, 5000.0)], machines(2), [straight("m", 0.001, 0.01)], None, EXACT)
    check(made, [ServingSession("s", "m", 0.1, 5000.0)])
    assert made.capacity("s") == pytest.approx(2 * 40 / 0.05)


def test_the_weakest_session_is_the_one_that_breaks_first() -> None:
    sessions, profiles = random_site(random.Random(3), 5, {"gpu": 1.0}, 0.1, 0.3)
    made, _ = plan(sessions, machines(5), profiles, None, EXACT)
    weakest = weak_points(made)[0]
    on = made.on(weakest.machine)
    assert on is not None
    for factor, fits in ((0.999, True), (1.02, False)):
        grown = [
            replace(each, rate=each.rate * weakest.factor * factor) if each.session == weakest.session else each for each in demands_of(on)
        ]
        assert (fit(on.machine, grown) is not None) == fits
    assert headroom(on) >= 1


def test_the_loss_of_the_only_machine_leaves_all_unserved() -> None:
    sessions, rules = [ServingSession("s", "m", 0.1, 10.0)], PlanningRules()
    profiles = [straight("m", 0.001, 0.01)]
    assert if_lost("gpu-00", sessions, machines(2), profiles, rules) == ()
    assert [one.session for one in if_lost("gpu-00", sessions, machines(1), profiles, rules)] == ["s"]


def test_names_that_occur_twice_are_refused() -> None:
    one = ServingSession("s", "m", 0.1, 10.0)
    with pytest.raises(CompositionError, match="The session 's' is given twice"):
        plan([one, one], machines(1), [])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ServingSession("s", "m", 0.0, 1.0),
        lambda: ServingSession("s", "m", 0.1, -1.0),
        lambda: ServingMachine("m", "gpu", -1),
        lambda: ServingMachine("m", "gpu", 1, 0.0),
        lambda: PlanningRules(headroom=-0.1),
        lambda: LatencyProfile("m", "gpu", (), ()),
        lambda: LatencyProfile("m", "gpu", (0.2, 0.1), (1, 1)),
        lambda: LatencyProfile("m", "gpu", (0.1, 0.2), (2, 1)),
        lambda: LatencyProfile.measured("m", "gpu", {}, {1: 1}),
    ],
)
def test_values_that_cannot_be_are_refused_with_a_sentence(wrong: object) -> None:
    with pytest.raises(CompositionError) as refused:
        wrong()  # type: ignore[operator]
    assert len(str(refused.value)) > 40


def test_a_measured_profile_is_straight_between_batches_and_never_falls() -> None:
    made = LatencyProfile.measured("m", "gpu", {1: 0.02, 4: 0.01, 8: 0.05}, {1: 10, 8: 80}, (0.001, 0.002, 3.0))
    assert made.p99[:4] == (0.02, 0.02, 0.02, 0.02)
    assert made.latency(6) == pytest.approx(0.03)
    assert made.nbytes[7] == 80
    assert (made.outside, made.loading, made.largest_within(0.0301)) == (pytest.approx(0.003), 3.0, 6)


def test_a_plan_holds_no_more_than_the_entrance_takes() -> None:
    sessions = [ServingSession("a", "m", 0.2, 100.0), ServingSession("b", "m", 0.2, 50.0)]
    rules = PlanningRules(network=0.03, headroom=0.0, entrance=0.01)
    made, _ = plan(sessions, machines(4), [straight("m", 0.001, 0.02)], None, rules)
    assert made.capacity("a") + made.capacity("b") == pytest.approx(rules.entrance_rate)
    assert made.capacity("a") == pytest.approx(2 * made.capacity("b"))
    assert [(one.session, "The entrance takes" in one.reason) for one in made.unserved] == [("a", True), ("b", True)]
    assert rules.entrance_rate < 1 / rules.entrance
    assert not plan(sessions, machines(4), [straight("m", 0.001, 0.02)], None, PlanningRules(network=0.03))[0].unserved
    with pytest.raises(CompositionError, match="leaves no time to wait for it"):
        PlanningRules(entrance=0.01)
