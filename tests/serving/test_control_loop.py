"""The control loop of a server and its changes of plans, on a server in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from served_in_virtual_time import VirtualServer
from sites import machines, straight
from virtual_loop import in_virtual_time

from polyrhythm.serving import MachinePlan, PlanningRules, ServingPlan, ServingSession, plan
from polyrhythm.serving.control import Beacon, ControlRules
from polyrhythm.serving.server.answers import kind_of
from polyrhythm.serving.server.changing_plans import change, empty
from polyrhythm.serving.server.control_loop import ServedSite, ServingControl
from polyrhythm.serving.server.gateway import GatewayRules
from polyrhythm.serving.token_bucket import AdmitAll

PROFILES = (straight("a", 0.001, 0.025), straight("b", 0.002, 0.01))
SESSIONS = (ServingSession("a", "a", 0.1, 100.0), ServingSession("b", "b", 0.15, 60.0))
SITE = ServedSite(SESSIONS, tuple(machines(4)), PROFILES, PlanningRules(), ControlRules(beacon=1.0, epoch=20.0, shortest=5.0))


class Told:
    """A site that says what it is told, and whose requests the test makes up."""

    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []
        self.now = 0.0
        self.arrived: dict[str, int] = {}
        self.dead: set[str] = set()
        self.full: set[str] = set()

    def clock(self) -> float:
        return self.now

    def beacons(self) -> Sequence[Beacon]:
        living = [each.name for each in SITE.machines if each.name not in self.dead]
        return [Beacon("gateway", self.now, dict(self.arrived)), *(Beacon(name, self.now) for name in living)]

    def follow(self, plan: ServingPlan) -> Sequence[str]:
        self.events.append(("gateway", plan))
        return []

    def install(self, plans: Mapping[str, MachinePlan]) -> Sequence[str]:
        self.events += plans.items()
        lost = [f"{name} is lost" for name in plans if name in self.dead]
        return lost + [f"{name}: OutOfMemory" for name, made in plans.items() if name in self.full and made.slots]


def turned(seconds: int, told: Told, loop: ServingControl, rates: Mapping[str, float], late: float = 0.0) -> None:
    for _ in range(seconds):
        told.now += 1.0 + late
        told.arrived = {name: round(rate * (1.0 + late)) for name, rate in rates.items()}
        loop.turn()
        loop.settle()


def begun() -> tuple[Told, ServingControl]:
    told = Told()
    return told, ServingControl(told, SITE, SITE.plan({}, frozenset(), None), told.clock)


def test_a_steady_rate_changes_nothing() -> None:
    told, loop = begun()
    turned(100, told, loop, {"a": 103, "b": 58})
    assert told.events == []


def test_late_beacons_do_not_look_like_more_requests() -> None:
    told, loop = begun()
    turned(60, told, loop, {"a": 100, "b": 60}, late=0.4)
    assert told.events == []


def test_a_rate_that_trebles_is_planned_for() -> None:
    told, loop = begun()
    turned(10, told, loop, {"a": 100, "b": 60})
    turned(25, told, loop, {"a": 300, "b": 60})
    assert loop.changes[0].reason == "rate"
    assert loop.active.capacity("a") >= 300
    assert told.events[-1][1] == loop.active or isinstance(told.events[-1][1], MachinePlan)


def test_a_silent_machine_is_planned_around_and_taken_back() -> None:
    told, loop = begun()
    lost = loop.active.machines[0].machine.name
    told.dead.add(lost)
    turned(4, told, loop, {"a": 100, "b": 60})
    assert [each.reason for each in loop.changes] == ["lost"]
    assert loop.active.on(lost) is None
    assert not loop.active.unserved
    assert lost not in {name for name, _ in told.events}
    told.dead.clear()
    turned(3, told, loop, {"a": 100, "b": 60})
    assert loop.state.dead == frozenset()


@pytest.mark.parametrize("memory", [8000, 200], ids=["roomy", "tight"])
def test_no_request_finds_no_machine_while_plans_change(memory: int) -> None:
    """A steady load of two sessions while the site changes between plans that put them on other machines."""

    async def main() -> None:
        sizes = [replace(profile, nbytes=(150 * 10**6,) * profile.largest) for profile in PROFILES]
        site = machines(3, memory=memory * 10**6)
        low, high = ([replace(one, rate=one.rate * factor) for one in SESSIONS] for factor in (1.0, 2.5))
        plans = [plan(each, site, sizes)[0] for each in (low, high, list(reversed(low)), high)]
        server = VirtualServer(site, SESSIONS, GatewayRules(admission=AdmitAll()))
        server.begin(plans[0])
        asked = []
        for before, after in itertools.pairwise(plans):
            for _ in range(40):
                asked += [asyncio.create_task(server.gateway.answer(name, None)) for name in ("a", "b")]
                await asyncio.sleep(0.013)
            assert change(server, before, after, frozenset()) == (after, [])
        kinds = Counter(kind_of(each) for each in await asyncio.gather(*asked))
        assert kinds["ok"] >= 0.97 * len(asked), kinds
        assert "dropped: moved" not in kinds

    in_virtual_time(main())


def test_a_machine_loads_before_the_gateway_routes_to_it_and_ends_what_it_had_after() -> None:
    low, high = (SITE.plan({"a": 100 * factor, "b": 60 * factor}, frozenset(), None) for factor in (1, 3))
    told = Told()
    change(told, low, high, frozenset())
    names = [name for name, _ in told.events]
    routed = names.index("gateway")
    assert set(names[:routed]) == {each.machine.name for each in high.machines if low.on(each.machine.name) != each}
    back = Told()
    change(back, high, low, frozenset())
    ended = [(name, made) for name, made in back.events if isinstance(made, MachinePlan) and not made.slots]
    assert {name for name, _ in ended} == {each.machine.name for each in high.machines} - {each.machine.name for each in low.machines}
    assert [name for name, _ in back.events].index("gateway") < min(back.events.index(each) for each in ended)


@pytest.mark.parametrize("memory", [8000, 200], ids=["roomy", "tight"])
@pytest.mark.parametrize("losing", [False, True], ids=["all live", "one lost"])
def test_no_routes_lead_to_a_machine_that_could_not_load(memory: int, losing: bool) -> None:
    sizes = [replace(profile, nbytes=(150 * 10**6,) * profile.largest) for profile in PROFILES]
    site = machines(4, memory=memory * 10**6)
    low, many = (plan([replace(one, rate=one.rate * factor) for one in SESSIONS], site, sizes)[0] for factor in (1.0, 6.0))
    turned_round = [*many.machines[1:], many.machines[0]]  # models change places, for which tight machines must make room
    high = ServingPlan(tuple(replace(each, machine=other.machine) for each, other in zip(many.machines, turned_round, strict=True)))
    new = next(each for each in high.machines if low.on(each.machine.name) is None)
    dead = frozenset([low.machines[0].machine.name]) if losing else frozenset()
    made = ServingPlan(tuple(each for each in high.machines if each.machine.name not in dead))
    told = Told()
    told.full.add(new.machine.name)
    serves, problems = change(told, low, made, dead)
    assert problems == [f"{new.machine.name}: OutOfMemory"]
    assert serves == ServingPlan(tuple(each for each in low.machines if each.machine.name not in dead))
    routed = [each for _, each in told.events if isinstance(each, ServingPlan)]
    assert new.machine.name not in {each.machine.name for one in routed for each in one.machines}
    last = {name: each for name, each in told.events if isinstance(each, MachinePlan)}
    assert not any(each != (serves.on(name) or empty(each.machine)) for name, each in last.items())
    assert not dead & set(last)
    assert not routed or routed[-1].machines == serves.machines


def test_a_plan_that_could_not_be_loaded_is_tried_again_and_the_one_before_stays_active() -> None:
    told, loop = begun()
    first = loop.active
    told.full = {each.name for each in SITE.machines if first.on(each.name) is None}
    turned(10, told, loop, {"a": 100, "b": 60})
    turned(25, told, loop, {"a": 300, "b": 60})
    assert len(loop.changes) >= 2
    assert not any(each.installed for each in loop.changes)
    assert loop.active == first
    assert not any(name == "gateway" for name, _ in told.events)
    told.full.clear()
    turned(12, told, loop, {"a": 300, "b": 60})
    assert loop.changes[-1].installed
    assert loop.active.capacity("a") >= 300
