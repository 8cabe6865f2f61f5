"""Faults as values, and the schedule that a seed makes of them."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest

from polyrhythm.core.kernel.view import View, next_name
from polyrhythm.errors import CompositionError, UnknownNameError
from polyrhythm.hardware.faults import (
    Crash,
    Disconnect,
    Drop,
    Fault,
    Join,
    KillWhileWriting,
    Leave,
    Newcomers,
    Partition,
    Preemptions,
    RandomCrashes,
    RandomCuts,
    RandomStalls,
    Stall,
    Trace,
    schedule,
)
from polyrhythm.hardware.faults.crew_names import CrewNames
from polyrhythm.hardware.faults.fault import AwaitedFaults, places
from polyrhythm.hardware.faults.trace import TRACES
from polyrhythm.hardware.traces.generate import MARKETS

ACTORS = [*(f"worker/{rank}" for rank in range(200)), "server/0"]


def test_a_schedule_is_sorted_by_time_and_keeps_the_order_given_within_an_instant() -> None:
    late, first, second = Crash("worker/1", 5.0), Stall("worker/2", 1.0, 2.0), Disconnect("site/a", "host/3", 1.0, 9.0)
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
    for fault in (Crash("worker/200", 1.0), Disconnect("worker/1", "servr/0", 1.0, 1.0), Drop(0.5, ("worker/0", "nobody/1"))):
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


def test_a_fault_begins_at_a_time_or_after_a_step_and_not_both() -> None:
    for given in ({}, {"at": 1.0, "step": 2}):
        with pytest.raises(CompositionError, match="either at=SECONDS or step=STEPS"):
            Crash("worker/0", **given)  # type: ignore[arg-type]
    with pytest.raises(CompositionError, match="cannot come after step 0"):
        Crash("worker/0", step=0)
    late, never = Crash("worker/1", 5.0), Crash("worker/0", step=3)
    assert schedule([never, late], 0, ACTORS) == [late, never]


def test_rates_by_step_give_steps_below_the_horizon() -> None:
    found = schedule([RandomCrashes(rate_per_step=0.05, horizon=20)], 3, ACTORS)
    assert len(found) == pytest.approx(200 * (1 - 2.718281828**-1), abs=25)
    assert all(isinstance(fault, Crash) and fault.at is None and fault.step in range(1, 21) for fault in found)
    with pytest.raises(CompositionError, match="needs one rate"):
        RandomStalls(1.0, rate_per_step=0.1)


def test_a_partition_cuts_every_pair_of_sides() -> None:
    found = schedule([Partition((("worker/0", "worker/1"), ("worker/2",), ("server/0",)), 1.0, 2.0)], 0, ACTORS)
    pairs = [{fault.a, fault.b} for fault in found if isinstance(fault, Disconnect)]
    assert len(pairs) == 5
    assert {"worker/0", "worker/1"} not in pairs
    with pytest.raises(CompositionError, match="a place on two of them"):
        Partition((("worker/0",), ("worker/0",)), 1.0)


def test_preemptions_have_the_given_rate_and_everyone_who_was_notified_is_replaced() -> None:
    found = schedule([Preemptions(2.0, notice=30.0, back_after=300.0)], 5, ACTORS)
    notified, back = [fault for fault in found if isinstance(fault, Leave)], [fault for fault in found if isinstance(fault, Join)]
    assert len(notified) == len(back) == pytest.approx(200 * 3600 / (1800 + 330), rel=0.15)
    assert len({fault.actor for fault in notified}) == len(notified)
    assert sorted(fault.at + 330.0 for fault in notified if fault.at is not None) == pytest.approx([fault.at for fault in back])
    unnotified = schedule([Preemptions(2.0)], 5, ACTORS)
    assert {type(fault) for fault in unnotified} == {Crash}
    assert len(unnotified) == pytest.approx(200 * (1 - 2.718281828**-2), abs=20)


@pytest.mark.parametrize("seed", range(20))
def test_a_roster_names_newcomers_as_a_run_does(seed: int) -> None:
    draw, most = random.Random(seed), 5
    view = View.of(("worker/0", "worker/1", "worker/2"))
    roster = CrewNames(Newcomers(most), view.members)
    for _ in range(20):
        if view.size == most or (view.size > 1 and draw.random() < 0.5):
            name = draw.choice(view.members)
            view = view.without(name)
            roster.leave(name)
        else:
            name = next_name(view, most)
            assert roster.join() == name
            view = View(view.epoch + 1, (*view.members, name), (*view.joined, name), view.left)
    assert sorted(roster.present) == sorted(view.members)


def test_who_replaces_a_worker_at_once_is_preempted_too() -> None:
    found = schedule([Preemptions(3600.0, horizon=20.0)], 1, ["worker/0", "worker/1"], newcomers=Newcomers(4, replaced=True))
    numbers = [int(fault.actor.removeprefix("worker/")) for fault in found if isinstance(fault, Crash)]
    assert len(set(numbers)) == len(numbers) > 10
    assert {number % 4 for number in numbers} == {0, 1}


def test_who_will_join_may_be_named_and_nobody_else() -> None:
    assert schedule([Join(1.0), Leave("worker/200", 2.0)], 0, ACTORS) == [Join(1.0), Leave("worker/200", 2.0)]
    with pytest.raises(UnknownNameError, match="No actor is called 'worker/400'"):
        schedule([Join(1.0), Leave("worker/400", 2.0)], 0, ACTORS)


def test_faults_wait_for_the_moments_of_their_actors_and_are_taken_once() -> None:
    faults: list[Fault] = [
        Crash("worker/1", step=3),
        Stall("first", duration=1.0, step=3),
        KillWhileWriting("worker/1"),
        Crash("worker/2", 1.0),
    ]
    waiting = AwaitedFaults(faults)
    assert waiting.moments == {"worker/1": ["step 3", "checkpoint 1"], "first": ["step 3"]}
    assert waiting.take("worker/1", "step 3", "worker/0") == [Crash("worker/1", step=3)]
    assert waiting.take("worker/1", "step 3", "worker/1") == [faults[1]]
    assert waiting.take("worker/1", "step 3", "worker/1") == []


def test_what_a_resumed_run_has_behind_it_is_left_out() -> None:
    faults = [Crash("worker/0", 1.0), Stall("worker/1", 1.0, 3.0), Drop(0.5), Crash("worker/2", step=1)]
    assert schedule(faults, 0, ACTORS, began=2.0) == [
        Stall("worker/1", 2.0, 2.0),
        Drop(0.5, at=2.0, duration=float("inf")),
        Crash("worker/2", step=1),
    ]


def test_the_traces_of_the_package_are_those_that_their_script_writes() -> None:
    for market in MARKETS:
        assert (TRACES / f"{market.name}.jsonl").read_text() == market.text(0)


def test_a_trace_is_replayed_faster_and_leaves_one_worker(tmp_path: Path) -> None:
    path = tmp_path / "spot.jsonl"
    path.write_text('# made up\n{"at": 60, "kind": "leave", "count": 9, "notice": 30}\n{"at": 120, "kind": "join"}\n'
                    '{"at": 180, "kind": "crash", "actor": "worker/3"}\n')  # fmt: skip
    found = schedule([Trace(path, speed=60.0)], 1, ACTORS[:3])
    assert [type(fault) for fault in found] == [Leave, Leave, Join, Crash]
    assert found[0] == replace(found[1], actor=places(found[0])[0])
    assert (found[2], found[3]) == (Join(2.0), Crash("worker/3", 3.0))
    assert found == schedule([Trace(path, speed=60.0)], 1, ACTORS[:3])
    for market in MARKETS:
        assert schedule([Trace(market.name)], 0, ACTORS[:16])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "Line 1 of the trace"),
        ('{"at": -1, "kind": "leave"}', "times are 0 or more"),
        ('{"at": 1, "kind": "left"}', "Invalid enum value"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(line)
    with pytest.raises(CompositionError, match=message):
        Trace(tmp_path / "x.jsonl")
    with pytest.raises(UnknownNameError, match=r"No trace or file is called 'spot-clam'\. Did you mean 'spot-calm'"):
        Trace("spot-clam")
