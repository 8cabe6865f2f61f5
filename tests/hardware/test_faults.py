"""Faults as values, and the schedule that a seed makes of them."""

from __future__ import annotations

import itertools

import pytest

from polyrhythm.errors import CompositionError, UnknownNameError
from polyrhythm.hardware.faults import Crash, Cut, Drop, RandomCrashes, RandomCuts, RandomStalls, Stall, schedule

ACTORS = [*(f"worker/{rank}" for rank in range(200)), "server/0"]


def test_a_schedule_is_sorted_by_time_and_keeps_the_order_given_within_an_instant() -> None:
    late, first, second = Crash("worker/1", 5.0), Stall("worker/2", 1.0, 2.0), Cut("site/a", "host/3", 1.0, 9.0)
    drop = Drop(0.1, ("worker/0", "server/0"))
    assert schedule([late, first, second, drop], 0, ACTORS) == [drop, first, second, late]


def test_random_crashes_come_at_the_given_rate_and_once_for_each_actor() -> None:
    found = schedule([RandomCrashes(rate_per_hour=0.5, horizon=3600.0)], 3, ACTORS)
    assert len({fault.actor for fault in found if isinstance(fault, Crash)}) == len(found)
    assert len(found) == pytest.approx(200 * (1 - 2.718281828**-0.5), abs=25)  # 1 - exp(-rate) of them
    assert all(0 <= fault.at < 3600 for fault in found)
    assert [fault.at for fault in found] == sorted(fault.at for fault in found)


def test_random_stalls_and_cuts_come_at_the_given_rate_and_do_not_overlap() -> None:
    stalls = schedule([RandomStalls(rate_per_hour=10, duration=36.0)], 1, ACTORS)
    assert len(stalls) == pytest.approx(200 * 10 / 1.1, rel=0.1)  # a tenth of the time is spent stalling
    mine = [fault.at for fault in stalls if isinstance(fault, Stall) and fault.actor == "worker/7"]
    assert all(later - earlier >= 36.0 for earlier, later in itertools.pairwise(mine))
    cuts = schedule([RandomCuts("site/a", "site/b", 60, 1.0, horizon=7200.0)], 1, ACTORS)
    assert len(cuts) == pytest.approx(118, rel=0.3)


def test_the_same_seed_gives_the_same_faults_and_another_source_gives_others() -> None:
    rule = RandomStalls(2, duration=1.0)
    assert schedule([rule], 1, ACTORS) == schedule([rule], 1, ACTORS)
    assert schedule([rule], 1, ACTORS) != schedule([rule], 2, ACTORS)
    assert len({fault.at for fault in schedule([rule, rule], 1, ACTORS)}) == len(schedule([rule, rule], 1, ACTORS))


def test_one_more_actor_moves_no_fault_of_the_others() -> None:
    rule = RandomCrashes(1.0)
    fewer = schedule([rule], 1, ACTORS[:100])
    assert set(fewer) <= set(schedule([rule], 1, ACTORS))


def test_a_rate_of_zero_gives_nothing_and_a_role_chooses() -> None:
    assert schedule([RandomCrashes(0.0)], 0, ACTORS) == []
    only = schedule([RandomStalls(50, duration=1.0, among="server")], 0, ACTORS)
    assert {fault.actor for fault in only if isinstance(fault, Stall)} == {"server/0"}


def test_strangers_are_refused() -> None:
    for fault in (Crash("worker/200", 1.0), Cut("worker/1", "servr/0", 1.0, 1.0), Drop(0.5, ("worker/0", "nobody/1"))):
        with pytest.raises(UnknownNameError, match="No actor is called"):
            schedule([fault], 0, ACTORS)
    with pytest.raises(UnknownNameError, match=r"from worker/0 to server/0\.$"):
        schedule([Crash("x", 1.0)], 0, ACTORS)
    with pytest.raises(UnknownNameError, match=r"No role is called 'workers'\. Did you mean 'worker'"):
        schedule([RandomCrashes(1.0, among="workers")], 0, ACTORS)


def test_impossible_values_are_refused_when_they_are_made() -> None:
    with pytest.raises(CompositionError, match="impossible times"):
        Crash("worker/0", -1.0)
    with pytest.raises(CompositionError, match="impossible times"):
        Stall("worker/0", 1.0, 0.0)
    with pytest.raises(CompositionError, match="from 0 to 1"):
        Drop(1.1)
    with pytest.raises(CompositionError, match="impossible rate"):
        RandomCrashes(-1.0)
