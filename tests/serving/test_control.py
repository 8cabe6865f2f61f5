"""The control loop as a function of beacons, and the bucket at the entrance."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError
from polyrhythm.serving import Beacon, ControlRules, ControlState, RateEstimate, Replan, TokenBucket, control

RULES = ControlRules()


def play(
    rates: list[float], silent_from: float = math.inf, dropped: Mapping[str, int] | None = None
) -> tuple[ControlState, list[tuple[float, Replan]]]:
    """One beacon a second with those requests of session s; machine m is silent from a moment on."""
    state, plans = ControlState.begin({"s": 100.0}, ["m"]), []
    for index, rate in enumerate(rates):
        now = index + 1.0
        beacons = [Beacon("entrance", now, {"s": round(rate)}, dropped or {})]
        if now < silent_from:
            beacons.append(Beacon("m", now))
        state, due = control(state, now, beacons, RULES)
        if due is not None:
            plans.append((now, due))
    return state, plans


def test_a_steady_rate_calls_for_no_plan() -> None:
    assert play([105.0, 95.0] * 150)[1] == []


def test_a_rate_that_rises_calls_for_a_plan_after_the_shortest_time_and_one_that_falls_at_the_end_of_the_epoch() -> None:
    risen, fallen = play([300.0] * 12)[1], play([30.0] * 31)[1]
    assert [(now, due.reason) for now, due in risen] == [(10.0, "rate")]
    assert risen[0][1].rates["s"] >= 300
    assert [(now, due.reason) for now, due in fallen] == [(30.0, "epoch")]


def test_the_estimate_is_not_the_last_sample_alone() -> None:
    """In the published code of Nexus the mean and the deviation are commented out."""
    state, _ = play([100.0] * 20 + [40.0])
    assert state.estimates["s"].planned > 80
    assert RateEstimate(100.0, 25.0, 120.0).planned == 125.0


def test_a_machine_that_missed_three_beacons_is_dead_and_a_plan_is_due_at_once() -> None:
    state, plans = play([100.0] * 9, silent_from=5.0)
    assert [(now, due.reason, due.dead) for now, due in plans] == [(7.0, "lost", frozenset({"m"}))]
    state, due = control(state, 10.0, [Beacon("m", 10.0)], RULES)
    assert due is not None
    assert (due.reason, state.dead) == ("back", frozenset())


def test_drops_in_three_beacons_call_for_a_plan() -> None:
    assert [(now, due.reason) for now, due in play([100.0] * 11, dropped={"s": 2})[1]] == [(10.0, "drops")]
    assert play([100.0] * 11, dropped={"s": 1})[1] == []


def test_rules_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CompositionError, match="give 0 < beacon <= shortest <= epoch"):
        ControlRules(beacon=20.0)


@given(st.floats(0.5, 100), st.integers(1, 20), st.lists(st.floats(0, 1), min_size=1, max_size=200))
def test_a_bucket_admits_at_most_its_burst_and_its_rate(rate: float, burst: int, distances: list[float]) -> None:
    bucket, now, admitted = TokenBucket(rate, burst), 0.0, 0
    level = bucket.full(now)
    for distance in distances:
        now += distance
        level, wait = bucket.admit(level, now)
        admitted += wait == 0
        if wait:
            assert bucket.admit(level, now + wait)[1] == 0
    assert admitted <= burst + rate * now + 1e-6
    assert admitted >= min(len(distances), burst)
