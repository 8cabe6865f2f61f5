"""From one plan to the next: what still serves while models are loaded, and the memory that both take."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from polyrhythm.serving.serving_plan import DutySlot, MachinePlan, PlanDiff, ServingPlan


def interim(active: ServingPlan, made: ServingPlan, dead: frozenset[str]) -> ServingPlan:
    """The active plan without lost machines, and without models that leave machines where old and new ones do not fit together."""
    kept = []
    for each in active.machines:
        if each.machine.name in dead:
            continue
        after = made.on(each.machine.name)
        slots = each.slots
        if after is not None and _nbytes(slots + after.slots) > each.machine.memory:
            models = {slot.model for slot in after.slots}
            slots = tuple(slot for slot in slots if slot.model in models)
        if slots:
            kept.append(replace(each, slots=slots))
    return ServingPlan(tuple(kept), made.unserved)


def loading_times(work: PlanDiff, made: ServingPlan) -> dict[tuple[str, str], float]:
    """The seconds after which each model is loaded on its machine; a machine loads its models one after the other."""
    spent: dict[str, float] = {}
    times = {}
    for machine, model in work.loads:
        on = made.on(machine)
        seconds = 0.0 if on is None else next(slot.profile.loading for slot in on.slots if slot.model == model)
        spent[machine] = spent.get(machine, 0.0) + seconds
        times[machine, model] = spent[machine]
    return times


def partly_loaded(before: ServingPlan, made: ServingPlan, missing: Collection[tuple[str, str]]) -> ServingPlan:
    """The plan `made` as far as its models are loaded; a session that still misses one is also served where it was before."""
    waiting = {slot.session for each in made.machines for slot in each.slots if (each.machine.name, slot.model) in missing}
    stages = []
    for each in (*made.machines, *(old for old in before.machines if made.on(old.machine.name) is None)):
        name = each.machine.name
        new, old = made.on(name), before.on(name)
        slots = tuple(slot for slot in _slots(new) if (name, slot.model) not in missing)
        there = {slot.session for slot in slots}
        slots += tuple(slot for slot in _slots(old) if slot.session in waiting and slot.session not in there)
        if slots:
            stages.append(MachinePlan(each.machine, each.duty, slots))
    return ServingPlan(tuple(stages), made.unserved)


def held_meanwhile(before: ServingPlan, after: ServingPlan) -> dict[str, int]:
    """The bytes that each machine holds while it changes from one plan to the other."""
    names = dict.fromkeys([*(each.machine.name for each in before.machines), *(each.machine.name for each in after.machines)])
    return {name: _nbytes(_slots(before.on(name)) + _slots(after.on(name))) for name in names}


def _slots(made: MachinePlan | None) -> tuple[DutySlot, ...]:
    return () if made is None else made.slots


def _nbytes(slots: tuple[DutySlot, ...]) -> int:
    largest: dict[str, int] = {}
    for slot in slots:
        largest[slot.model] = max(largest.get(slot.model, 0), slot.nbytes)
    return sum(largest.values())
