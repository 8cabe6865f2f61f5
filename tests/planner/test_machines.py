"""Machines as people have them: some left out, each with its memory, price and power, lines with a cap, and data at one site."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest

import polyrhythm as pr
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.errors import CompositionError, UnknownNameError
from polyrhythm.hardware.chosen import places_typed
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.meters import HostLines, LineUse
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import GivenSites
from polyrhythm.hardware.site import Site
from polyrhythm.tools.planner.answer import Refusal
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.chosen_machines import EVERY, ChosenMachines, choices_of
from polyrhythm.tools.planner.data_site import FetchedBefore, FetchedMeanwhile, fetching_seconds
from polyrhythm.tools.planner.machine_costs import interruptions_of, priced, too_much, too_small
from polyrhythm.tools.planner.objective import Objective, Prices, Spent
from polyrhythm.tools.planner.pace import StepPace
from polyrhythm.tools.planner.space import Space
from polyrhythm.tools.planner.words import ruled_out

from .jobs import NETWORK, SLOW, findings, least_squares, planner, search

OLD = Device("old laptop", SLOW.flops / 30)
MIXED = Fleet((SLOW, OLD, SLOW))
TWO = Network.joined(
    "two",
    [Site("lab", 1e6, 1e6), Site("attic", 1e5, 2e5, meter=HostLines(gigabyte=4.0, cap="10 kB"))],
    {("lab", "attic"): 0.01, ("attic", "lab"): 0.01},
    {("lab", "attic"): 5e4},
)


def test_kinds_of_machines_may_be_left_out_and_each_site_may_be_alone() -> None:
    assert choices_of(Fleet((SLOW,)), NETWORK, 8) == ()
    mixed = choices_of(MIXED, NETWORK, 3)
    assert mixed == (ChosenMachines((0, 2), 3, "without old laptop", unlike=True), ChosenMachines((0, 2, 1), 3, "in order of speed"))
    words = [each.words for each in choices_of(Fleet((SLOW,)), TWO, 5)]
    assert words == ["without slow at lab", "without slow at attic", "in order of speed"]
    many = Fleet(tuple(Device(f"kind {number}", 1e9 / (number + 1)) for number in range(40)))
    assert len(choices_of(many, NETWORK, 40)) < 20


def test_a_space_without_different_machines_is_as_before() -> None:
    space = findings(workers=(2, 4)).space
    assert space.machines == ()
    assert all(each.machines == EVERY for each in space.first())


def test_a_candidate_of_some_machines_is_named_and_typed_by_them() -> None:
    some = choices_of(MIXED, NETWORK, 3)[0]
    space = replace(findings(workers=(2, 3)).space, systems=("allreduce",), machines=(some,))
    candidate = Candidate("allreduce", 3).on(some)
    assert candidate.name == "allreduce × 2 without old laptop"
    assert candidate in list(space.neighbours(Candidate("allreduce", 3)))
    assert places_typed(candidate.machine_arguments()[1]) == ((0, 2), 3)
    for text in ("0,1", "0,0/3", "3/3", "a/2"):
        with pytest.raises(CompositionError, match=r"write which|name each"):
            places_typed(text)


def test_an_old_laptop_that_holds_all_up_is_left_out() -> None:
    found = findings(systems=("allreduce",), workers=(3,))
    found.scenario = found.scenario.elsewhere(devices=MIXED)
    found.space = Space.of(found.scenario, ("allreduce",), (3,))
    plan = planner(found).plan()
    assert plan.best is not None
    assert plan.best.machines.words == "without old laptop"
    assert "without old laptop" in str(pr.plan_text(plan))
    run = pr.run(
        lambda worker: least_squares(worker, **{"epochs": 40, **plan.best.settings}),
        workers=2,
        strategy=plan.best.strategy,
        on=pr.Simulator(*pr.hardware.some_machines(NETWORK, MIXED, plan.best.machines.places, of=3)),
        seed=9,
    )
    reached = parse_target("loss=0.05").first_reached(run.outcome)
    assert reached is not None
    assert plan.best.seconds.low * 0.8 <= reached.time <= plan.best.seconds.high * 1.25


def test_a_machine_that_is_too_small_is_named_with_the_figures() -> None:
    devices = Fleet((SLOW, OLD), terms=(MachineTerms(memory=8e9), MachineTerms(memory=5e8)))
    assert too_small(devices, 2, 4e8, math.inf) == ""
    assert too_small(devices, 1, 6e8, math.inf) == ""
    assert too_small(devices, 4, 6e8, math.inf) == "a worker needs 600 MB, and old laptop (worker 1) has 500 MB, as have 1 more"
    assert too_small(devices, 2, 6e8, 1e8).endswith("more than the 100 MB of --memory")
    for given, shown in (
        (too_small(devices, 2, 6e8, math.inf), "old laptop (worker 1) has"),
        (too_small(devices, 2, 6e8, 1e8), "--memory"),
    ):
        refused = msgspec.structs.replace(planner(findings(workers=(2,))).answer(""), refused=[Refusal("allreduce × 2", given)])
        assert ruled_out(refused) == [f"allreduce: a worker would need more memory than {shown}"]
    found = findings(workers=(2,))
    found.scenario = found.scenario.elsewhere(devices=replace(devices, terms=(MachineTerms(), MachineTerms(memory=10.0))))
    search(found).make([(Candidate("allreduce", 2), 0, 3, math.inf)], 1.0)
    assert "old laptop (worker 1) has 1e-05 MB" in found.refused[Candidate("allreduce", 2)]


def test_prices_and_power_are_those_of_the_machines_that_take_part() -> None:
    devices = Fleet((SLOW, OLD), terms=(MachineTerms(watts=300, worker_hour=1.0), MachineTerms()))
    own = priced(Objective("money", Prices(worker_hour=0.5)), devices, 2, {"line": LineUse(0.25, 8.0, math.inf)})
    spent = Spent(3600.0, 2e9, 2)
    assert spent.money(own.prices) == pytest.approx(1.0 + 0.5 + 2 * 0.25 * 8)
    assert spent.energy(own.prices) == pytest.approx(3600 * (300 + 100))
    assert priced(Objective("energy", Prices(watts=50)), devices, 2, {}).prices.watts == 50
    with pytest.raises(CompositionError, match="nothing has a price"):
        pr.plan(least_squares, "loss=0.05", objective="money", workers=(2,), budget=1)


def test_interruptions_are_those_of_the_machines_that_take_part() -> None:
    devices = Fleet((SLOW, OLD), terms=(MachineTerms(interruptions=0.4, notice=30), MachineTerms()))
    found = interruptions_of(devices, 2, None)
    assert found is not None
    assert (found.per_hour, found.notice) == (0.2, 30)
    assert interruptions_of(Fleet((SLOW,)), 2, None) is None


def test_a_line_carries_no_more_than_its_cap_and_costs_by_the_gigabyte() -> None:
    found = findings(workers=(2,))
    found.scenario = found.scenario.elsewhere(network=TWO)
    candidate = Candidate("allreduce", 2)
    search(found).make([(candidate, 0, 4000, math.inf)], 1.0)
    training = found.training(candidate)
    assert training is not None
    assert training.lines["the line of host/1"].nbytes == 1.0  # every byte goes over it, in one direction or the other
    assert "the line of host/1 would carry" in found.refused[candidate]
    assert found.objective_of(candidate).prices.gigabyte == 4.0
    assert too_much(training.lines, 1e4 - 1) == ""


def test_data_at_one_site_come_first_or_meanwhile() -> None:
    seconds = fetching_seconds(FetchedBefore("lab", 1e6), TWO, 2)
    assert seconds == 5e5 / 5e4  # a half of them, over the line between the sites
    assert fetching_seconds(FetchedBefore("attic", 1e6), TWO, 2) == 5e5 / 1e5
    assert fetching_seconds(FetchedBefore("lab", 1e6), chosen_lab(), 2) == 0.0
    assert FetchedBefore("lab", 1.0).delayed(3.0, 0.5, 10.0) == 13.0
    assert [FetchedMeanwhile("lab", 1.0).delayed(3.0, part, 10.0) for part in (0.1, 0.5)] == [3.0, 5.0]
    with pytest.raises(UnknownNameError, match="site"):
        pr.plan(least_squares, "loss=0.05", network=TWO, workers=(2,), data=FetchedBefore("cellar", 1.0))
    with pytest.raises(CompositionError, match="no data"):
        FetchedMeanwhile("lab", 0.0)


def test_a_run_begins_when_its_data_have_come() -> None:
    plain, late = findings(workers=(2,)), findings(workers=(2,))
    for found in (plain, late):
        found.scenario = found.scenario.elsewhere(network=TWO)
    late.scenario = late.scenario.elsewhere(data=FetchedBefore("lab", 1e6))
    candidate = Candidate("allreduce", 2)
    for found in (plain, late):
        search(found).make([(candidate, 0, 30, math.inf)], 1.0)
    before, after = plain.training(candidate), late.training(candidate)
    assert before is not None
    assert after is not None
    assert after.seconds == pytest.approx(before.seconds + 10.0)
    paces = [StepPace.of(run, found.per_step(candidate)) for found, run in ((plain, before), (late, after))]
    assert paces[1].seconds == pytest.approx(paces[0].seconds)
    assert paces[1].begun[0] == pytest.approx(paces[0].begun[0] + 10.0)
    assert after.curve[0].seconds == pytest.approx(before.curve[0].seconds + 10.0)


def chosen_lab() -> Network:
    return replace(TWO, sites=TWO.sites, deal=GivenSites((0,)))
