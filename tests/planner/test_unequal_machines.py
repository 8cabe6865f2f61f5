"""Batches by speed in plans: which are tried, what they cost, who takes them, and how they are printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import polyrhythm as pr
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.fleet import Fleet, Straggler
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.machines import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.site import Site
from polyrhythm.shuffle import ByShares
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.measuring.timing import charging_shares
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.charged import charged_for
from polyrhythm.tools.planner.chosen_machines import ChosenMachines, choices_of, grouped_choices, shared_choices
from polyrhythm.tools.planner.invocation import Invocation
from polyrhythm.tools.planner.next_runs import other_options
from polyrhythm.tools.planner.obstacles import obstacle_of
from polyrhythm.tools.planner.space import Space, takes_groups, takes_shares

from .jobs import NETWORK, SLOW, findings, least_squares, planner, search

HALF = Device("half", SLOW.flops / 2, 0.001)
MIXED = Fleet((SLOW, HALF, HALF))
SHARED = ChosenMachines((0, 1, 2), 3, "with batches by speed", (50, 25, 25))


def test_shares_are_as_the_speeds_without_what_a_step_costs_besides() -> None:
    assert shared_choices(MIXED, 3, choices_of(MIXED, NETWORK, 3)) == (SHARED,)
    slowed = replace(Fleet((SLOW,)), paces=(Straggler(2, 3.0),))
    assert [each.shares for each in shared_choices(slowed, 3, ())] == [(43, 43, 14)]


def test_machines_that_are_alike_or_whose_steps_were_measured_have_no_shares() -> None:
    assert shared_choices(Fleet((SLOW,)), 4, ()) == ()
    assert shared_choices(Fleet((SLOW, Profile("measured", (0.1,)))), 2, ()) == ()


def test_what_is_left_without_the_slowest_has_shares_of_its_own() -> None:
    three = Fleet((SLOW, HALF, Device("third", SLOW.flops / 10)))
    found = shared_choices(three, 3, choices_of(three, NETWORK, 3))
    assert [each.words for each in found] == ["with batches by speed", "without third, with batches by speed"]
    assert found[1].shares == (67, 33)


def test_systems_that_need_equal_batches_say_so() -> None:
    for system, takes in (("allreduce", True), ("tree", True), ("easgd", False), ("sparknet", False), ("ssp", False)):
        candidate = Candidate(system, 3).on(SHARED)
        assert takes_shares(candidate) is takes, system
        reason = obstacle_of(findings(workers=(3,)).scenario, candidate)
        assert reason == "" if takes else "unequal batches" in reason, (system, reason)


def test_a_command_and_code_say_the_shares() -> None:
    candidate = Candidate("allreduce", 3).on(SHARED)
    assert candidate.strategy.shuffle == ByShares((50, 25, 25))
    invocation = Invocation("train.py", machines=("--on", "simulator", "--network", "lan", "--device", "mixed.json"), target="loss=1")
    assert "--workers 3 --shares 50,25,25" in invocation.command(candidate)
    assert "--shares 50,25,25" in invocation.rehearsal(candidate)
    assert "--machines 0,1,2/3" in invocation.rehearsal(candidate)
    assert "shuffle=pr.shuffle.ByShares((50, 25, 25))" in invocation.code(candidate)


def test_one_system_tries_them_first_and_the_leaders_later() -> None:
    found = findings(systems=("easgd", "allreduce", "tree"), workers=(3,))
    found.scenario = found.scenario.elsewhere(devices=MIXED)
    space = Space.of(found.scenario, ("easgd", "allreduce", "tree"), (3,))
    assert [each for each in space.first() if each.machines.shares] == [Candidate("allreduce", 3).on(SHARED)]
    assert Candidate("tree", 3).on(SHARED) in list(space.neighbours(Candidate("tree", 3)))


def test_each_machine_is_charged_for_its_own_batch_and_keeps_its_place() -> None:
    terms = (MachineTerms(watts=1), MachineTerms(watts=2))
    whole = Fleet((SLOW, HALF), (Straggler(3, 2.0),), terms=terms, places=(3, 0))
    charged = charging_shares(whole, 1e3, (3, 1))
    assert charged.machine(0).step_seconds(0, 0) == HALF.step_seconds(1.5e3, 0)
    assert charged.machine(1).step_seconds(0, 0) == SLOW.step_seconds(0.5e3, 0)
    assert [charged.terms_of(worker).watts for worker in (0, 1)] == [2, 1]
    assert [charged.place(worker) for worker in (0, 1)] == [3, 0]


def test_seconds_in_advance_are_those_of_counted_operations() -> None:
    found = findings(systems=("allreduce",), workers=(3,))
    found.scenario = found.scenario.elsewhere(devices=MIXED)
    found.space = Space.of(found.scenario, ("allreduce",), (3,))
    seconds = {}
    for candidate in (Candidate("allreduce", 3), Candidate("allreduce", 3).on(SHARED)):
        search(found).make([(candidate, 0, 20, math.inf)], 1.0)
        training = found.training(candidate)
        assert training is not None
        counted = pr.run(
            lambda worker: least_squares(worker, epochs=1),
            workers=3,
            strategy=candidate.strategy,
            on=pr.Simulator(network=NETWORK, devices=MIXED),
        )
        step = (counted.summary.virtual_seconds or math.nan) / (counted.summary.steps or math.nan)
        assert training.seconds / 20 == pytest.approx(step, rel=0.1)
        seconds[candidate] = training.seconds
    assert min(seconds.values()) == seconds[Candidate("allreduce", 3).on(SHARED)]
    assert charged_for(found.scenario, Candidate("allreduce", 3), 1e3, 8).devices.machine(1).step_seconds(0, 0) == HALF.step_seconds(1e3, 0)


@pytest.mark.long
def test_a_plan_for_unequal_machines_has_batches_by_speed_where_they_pay() -> None:
    found = findings(systems=("allreduce",), workers=(3,))
    found.scenario = found.scenario.elsewhere(devices=MIXED, network=Network.uniform("wide", "100 Mbit/s", "0.1 ms"))
    found.space = Space.of(found.scenario, ("allreduce",), (3,))
    plan = planner(found).plan()
    assert plan.best is not None
    assert plan.best.machines.shares == (50, 25, 25)
    assert plan.best.strategy.shuffle == ByShares((50, 25, 25))
    assert "with batches by speed" in str(pr.plan_text(plan))


GROUPED = ChosenMachines((0, 1, 2), 3, "in two groups, slow | half", groups="0/1,2")


def test_two_groups_are_divided_where_speeds_differ_most() -> None:
    assert grouped_choices(MIXED, NETWORK, 3) == (GROUPED,)
    four = Fleet((Device("c", 1e9), Device("a", 9e9), Device("d", 1.1e9), Device("b", 8e9)))
    assert [each.groups for each in grouped_choices(four, NETWORK, 4)] == ["1,3/0,2"]
    assert grouped_choices(Fleet((SLOW,)), NETWORK, 4) == ()


def test_groups_that_are_the_sites_are_tried_anyway() -> None:
    two = Network.joined("two", [Site("lab", 1e6, 1e6), Site("attic", 1e6, 1e6)], {("lab", "attic"): 0.01, ("attic", "lab"): 0.01}, {})
    assert grouped_choices(Fleet((SLOW, HALF)), two, 2) == ()


class _Restricted:
    """A type whose name has the three letters of another."""


@pytest.mark.parametrize(("kind", "takes"), [(str, True), (int | str | None, True), (_Restricted, False), (Sequence[str], False)])
def test_groups_are_taken_by_the_type_of_the_option(kind: Any, takes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def grouped(groups: Any) -> Strategy:
        return Strategy()

    grouped.__annotations__["groups"] = kind
    monkeypatch.setitem(SYSTEMS, "grouped", grouped)
    assert takes_groups("grouped") == takes


def test_only_systems_in_levels_have_groups_and_lose_them_elsewhere() -> None:
    assert [takes_groups(each) for each in ("hierarchical", "hierarchical-local-sgd", "hybrid-groups", "easgd", "rudra")] == [
        *(True, True, True),
        *(False, False),
    ]
    candidate = Candidate("hierarchical-local-sgd", 3).on(GROUPED)
    assert candidate.options == (("groups", "0/1,2"),)
    assert candidate.name.startswith("hierarchical-local-sgd × 3 in two groups, slow | half")
    assert "--option groups=0/1,2" in Invocation("train.py").command(candidate)
    assert candidate.on_every(2) == Candidate("hierarchical-local-sgd", 2)
    assert candidate.on(SHARED).options == ()
    found = findings(systems=("easgd", "hierarchical"), workers=(3,))
    space = Space.of(found.scenario.elsewhere(devices=MIXED), ("easgd", "hierarchical"), (3,))
    assert [each.system for each in space.first() if each.machines.groups] == ["hierarchical"]
    assert all(not each.machines.groups for each in space.neighbours(Candidate("easgd", 3)))


def test_other_options_of_a_system_in_groups_are_tried_in_the_same_groups() -> None:
    own = Candidate("hierarchical-local-sgd", 3, (("period", 64),)).on(GROUPED)
    periods = [{}, {"period": 1}, {"period": 4}]
    assert [each.options for each in other_options([own])] == [(*each.items(), ("groups", "0/1,2")) for each in periods]
    assert all(each.machines == GROUPED for each in other_options([own]))


def test_two_groups_train_as_their_command_says() -> None:
    found = findings(systems=("hierarchical-local-sgd",), workers=(3,))
    found.scenario = found.scenario.elsewhere(devices=MIXED)
    search(found).make([(Candidate("hierarchical-local-sgd", 3).on(GROUPED), 0, 40, math.inf)], 1.0)
    training = found.training(Candidate("hierarchical-local-sgd", 3).on(GROUPED))
    assert training is not None
    assert training.curve[-1].value < training.curve[0].value
