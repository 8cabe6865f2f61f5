"""From one plan to the next on machines that go on serving: what each machine and the gateway are told, in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from polyrhythm.serving.control import Beacon
from polyrhythm.serving.serving_plan import MachinePlan, ServingPlan
from polyrhythm.serving.sessions import ServingMachine
from polyrhythm.serving.transition import interim


class RunningSite(Protocol):
    """The machines and the gateway of a site, as the control loop sees them."""

    def beacons(self) -> Sequence[Beacon]:
        """The signs of life since the last call, within less than a beacon's interval."""

    def follow(self, plan: ServingPlan) -> Sequence[str]:
        """Have the gateway route by that plan; what went wrong."""

    def install(self, plans: Mapping[str, MachinePlan]) -> Sequence[str]:
        """Have each of those machines load its plan and follow it, all at once; what went wrong, a sentence each. Returns when all have."""


def change(site: RunningSite, before: ServingPlan, made: ServingPlan, dead: frozenset[str]) -> tuple[ServingPlan, list[str]]:
    """Change a site from one plan to another without a request that finds no machine; the plan that serves then, and what went wrong.

    Routes to lost machines end at once. A machine then loads what is new, and serves what it had beside it, unless both do not fit in
    its memory; when all have loaded, the gateway routes anew; at last the machines end what nobody routes to them. If a machine cannot
    load, all go back to the plan before, without lost machines: `made` has routes to what is not there.
    """
    problems: list[str] = []
    meanwhile = interim(before, made, dead)
    if meanwhile.machines != before.machines:
        problems += site.follow(meanwhile)
        problems += site.install(_differing(before, meanwhile, dead))
    bridges = {each.machine.name: _bridge(meanwhile.on(each.machine.name), each) for each in made.machines}
    told = {name: each for name, each in bridges.items() if each != meanwhile.on(name)}
    failed = site.install(told)
    if failed:
        kept = interim(before, before, dead)
        # all that were told anything: those that loaded in vain, and those that made room
        back = {name: kept.on(name) or empty(each.machine) for name, each in told.items()}
        back |= {each.machine.name: each for each in kept.machines if each != meanwhile.on(each.machine.name)}
        return kept, [*problems, *failed, *site.install(back), *(site.follow(kept) if kept.machines != meanwhile.machines else ())]
    problems += site.follow(made)
    served = ServingPlan(tuple(bridges.get(each.machine.name, each) for each in meanwhile.machines))
    ending = _differing(served, made, dead)
    ending |= {each.machine.name: each for each in made.machines if bridges[each.machine.name] != each}
    problems += site.install(ending)
    return made, problems


def _bridge(before: MachinePlan | None, after: MachinePlan) -> MachinePlan:
    """The new duty cycle, and at its end the slots that only the old one has."""
    known = {slot.session for slot in after.slots}
    return replace(after, slots=after.slots + tuple(slot for slot in (before.slots if before else ()) if slot.session not in known))


def _differing(before: ServingPlan, after: ServingPlan, dead: frozenset[str]) -> dict[str, MachinePlan]:
    """The plans of the living machines of `before` that differ in `after`; one that has none there gets an empty one."""
    found = {}
    for each in before.machines:
        name = each.machine.name
        wanted = after.on(name) or empty(each.machine)
        if name not in dead and wanted != each:
            found[name] = wanted
    return found


def empty(machine: ServingMachine) -> MachinePlan:
    """The plan of a machine that serves nothing."""
    return MachinePlan(machine, 1.0, ())
