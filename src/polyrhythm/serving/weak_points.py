"""Headroom of a plan, what breaks first, and what the loss of a machine means: values, for tables and for alarms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.serving.duty_cycle import MOST_GROWTH, demands_of, largest_growth, largest_rate
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.planning import plan
from polyrhythm.serving.serving_plan import MachinePlan, ServingPlan, Unserved
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession


@dataclass(frozen=True, slots=True)
class WeakPoint:
    """The session that fails first if it alone grows: by `factor` of its planned rate, on `machine`, for want of `limit`.

    `limit` is "memory", "latency" (a longer duty cycle would miss an objective) or "time" (all of the cycle is taken).
    """

    session: str
    machine: str
    factor: float
    limit: str


def headroom(each: MachinePlan) -> float:
    """The factor by which all sessions of a machine can grow together before one fails; at most `MOST_GROWTH`."""
    return largest_growth(each.machine, demands_of(each))


def weak_points(made: ServingPlan) -> tuple[WeakPoint, ...]:
    """One weak point for each session, the weakest first: routes keep their weights, so its tightest machine counts."""
    found: dict[str, WeakPoint] = {}
    for each in made.machines:
        for slot in each.slots:
            others = [demand for demand in demands_of(each) if demand.session != slot.session]
            own = next(demand for demand in demands_of(each) if demand.session == slot.session)
            factor = min(MOST_GROWTH, largest_rate(each.machine, others, own) / slot.rate)
            if slot.session not in found or factor < found[slot.session].factor:
                found[slot.session] = WeakPoint(slot.session, each.machine.name, factor, _limit(each, slot.session))
    return tuple(sorted(found.values(), key=lambda point: (point.factor, point.session)))


def breaks_first(made: ServingPlan) -> WeakPoint | None:
    """The session that fails first as it grows; None for a plan that serves nothing."""
    return next(iter(weak_points(made)), None)


def if_lost(
    machine: str,
    sessions: Sequence[ServingSession],
    machines: Sequence[ServingMachine],
    profiles: Sequence[LatencyProfile],
    rules: PlanningRules,
) -> tuple[Unserved, ...]:
    """The sessions, or parts of them, that the other machines cannot take over if `machine` is lost."""
    left, _ = plan(sessions, [each for each in machines if each.name != machine], profiles, None, rules)
    return left.unserved


def _limit(each: MachinePlan, session: str) -> str:
    """The bound that one more request in the batch of the session would pass."""
    slot = each.slot(session)
    if slot is None or slot.batch >= slot.profile.largest:
        return "time"
    more = slot.profile.nbytes[slot.batch] - slot.nbytes
    if each.nbytes + more > each.machine.memory:
        return "memory"
    return "latency" if slot.profile.latency(slot.batch + 1) + each.duty > slot.budget else "time"
