"""`plan`: sessions, machines and a former plan to a new plan, and the work of changing to it. Pure: the same for the same arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from polyrhythm.core.units import show_bytes
from polyrhythm.errors import CompositionError
from polyrhythm.serving.duty_cycle import fit, largest_rate
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.packing import Choices, Packed, pack
from polyrhythm.serving.serving_plan import Demand, MachinePlan, PlanDiff, ServingPlan, Unserved, difference
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession

_DEFAULT = PlanningRules()
_NEARLY = 1e-6


def plan(
    sessions: Sequence[ServingSession],
    machines: Sequence[ServingMachine],
    profiles: Sequence[LatencyProfile],
    previous: ServingPlan | None = None,
    rules: PlanningRules = _DEFAULT,
) -> tuple[ServingPlan, PlanDiff]:
    """Decide which machine serves which sessions in which batches, and what must be loaded for it.

    Machines of `previous` keep their sessions while that is feasible: what does not fit any more moves, and a new plan that costs less is
    taken if it loads few models. A session whose objective no machine can meet is refused, with the smallest objective that one could
    meet; one for which there is no room is served in part, and so are all where the server's entrance takes fewer requests. Raises
    CompositionError for names that occur twice.
    """
    _once("session", (one.name for one in sessions))
    _once("machine", (one.name for one in machines))
    _once("profile", (f"{one.model} on {one.kind}" for one in profiles))
    choices = Choices(tuple(sessions), {(one.model, one.kind): one for one in profiles}, rules)
    grown = 1 + rules.headroom
    total = sum(one.rate for one in sessions) * grown
    entered = min(1.0, rules.entrance_rate / total) if total else 1.0
    rates = {one.name: one.rate * grown * entered for one in sessions}
    packed = pack(choices, rates, Packed([], list(machines)))
    if previous is not None:
        packed = _stable(choices, rates, previous, packed, machines)
    unserved = [refused for one in sessions if (refused := _refusal(choices, one, machines, previous is not None)) is not None]
    if entered < 1:
        reason = f"The entrance takes {rules.entrance_rate:.4g} requests per second, and {total:.4g} are planned: divide the site."
        unserved += [Unserved(one.name, one.rate * (1 - entered), reason) for one in sessions]
    unserved += [Unserved(name, left / grown, _no_room(rates[name] / grown, left / grown, rules)) for name, left in packed.left.items()]
    made = ServingPlan(tuple(sorted(packed.open, key=lambda each: each.machine.name)), tuple(unserved))
    return made, difference(previous, made)


def _stable(choices: Choices, rates: dict[str, float], previous: ServingPlan, fresh: Packed, machines: Sequence[ServingMachine]) -> Packed:
    """The former plan with as few changes as serve the new rates, or `fresh` where it serves more, or costs less and loads little."""
    start, moved = _kept(choices, rates, previous, machines)
    kept = pack(choices, moved, start)
    if fresh.value[0] < kept.value[0]:
        return fresh
    loads = len(difference(previous, ServingPlan(tuple(fresh.open))).loads)
    if fresh.value[:2] < kept.value[:2] and loads <= choices.rules.most_loads:
        return fresh
    return kept


def _kept(
    choices: Choices, rates: dict[str, float], previous: ServingPlan, machines: Sequence[ServingMachine]
) -> tuple[Packed, dict[str, float]]:
    """The machines that stay as they are at the new rates, and the rate of each session that must find another place."""
    moved, names = dict(rates), {one.name: one for one in choices.sessions}
    present = {machine.name: machine for machine in machines}
    opened: list[MachinePlan] = []
    for before in previous.machines:
        machine = present.get(before.machine.name)
        if machine is None:
            continue
        held: list[Demand] = []
        for slot in sorted(before.slots, key=lambda slot: -slot.seconds):
            one = names.get(slot.session)
            wanted = 0.0 if one is None else rates[slot.session] * slot.rate / previous.capacity(slot.session)
            demand = None if one is None else choices.demand(one, machine, wanted)
            if demand is None or wanted <= 0:
                continue
            if fit(machine, [*held, demand]) is None:
                if held:
                    continue
                demand = replace(demand, rate=largest_rate(machine, [], demand))
            held.append(demand)
        made = fit(machine, held)
        if made is not None:
            opened.append(made)
            for demand in held:
                moved[demand.session] = max(0.0, moved[demand.session] - demand.rate)
    used = {each.machine.name for each in opened}
    return Packed(opened, [machine for machine in machines if machine.name not in used]), moved


def _refusal(choices: Choices, one: ServingSession, machines: Sequence[ServingMachine], again: bool) -> Unserved | None:
    """The refusal of a session that no machine can serve in time, with what could be served; None for others.

    `again` is True where a plan was before this one: machines that are not there were there then, and are lost.
    """
    if any(choices.most(one, machine) for machine in machines):
        return None
    known = [(machine, choices.profiles[one.model, machine.kind]) for machine in machines if (one.model, machine.kind) in choices.profiles]
    if not machines:
        return Unserved(one.name, one.rate, "No machine is left: all are lost." if again else "No machine is there to serve it: add one.")
    if not known:
        kinds = ", ".join(sorted({machine.kind for machine in machines}))
        elsewhere = ", ".join(sorted(kind for model, kind in choices.profiles if model == one.model))
        only, left = f", only on {elsewhere}" if elsewhere else "", " that is left" if again else ""
        advice = "bring one back, or measure it there" if again and elsewhere else "measure one"
        return Unserved(one.name, one.rate, f"{one.model} has no profile on any kind of machine{left} ({kinds}){only}: {advice}.")
    roomy = [profile for machine, profile in known if profile.nbytes[0] <= machine.memory]
    if not roomy:
        least = min(profile.nbytes[0] for _, profile in known)
        return Unserved(one.name, one.rate, f"{one.model} needs {show_bytes(least)} of memory, more than any machine has.")
    smallest = min(2 * profile.latency(1) + profile.outside for profile in roomy) + choices.rules.network + choices.rules.jitter
    text = f"No machine answers {one.model} within {one.slo * 1e3:.4g} ms; the smallest objective is {smallest * 1e3:.4g} ms."
    return Unserved(one.name, one.rate, text, smallest)


def _no_room(rate: float, left: float, rules: PlanningRules) -> str:
    """Why `left` of the `rate` requests per second have no place, and what a plan keeps free that a mild load may use all the same."""
    part = f"The machines have room for {rate - left:.4g} of its {rate:.4g} requests per second"
    text = part if left < rate * (1 - _NEARLY) else f"No machine has room for its {rate:.4g} requests per second"
    kept = [f"a headroom of {rules.headroom:.0%}"] if rules.headroom else []
    kept += [f"bursts of {rules.deviations:g} standard deviations"] if rules.deviations else []
    return f"{text}{', with what is kept free for ' * bool(kept)}{' and '.join(kept)}: add a machine, or give it more time."


def _once(what: str, names: Iterable[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise CompositionError(
            f"The {what} {twice[0]!r} is given {'twice' if len(twice) == 1 else 'twice, as are others'}: give each once."
        )
