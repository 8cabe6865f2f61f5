"""Squishy bin packing: sessions into the duty cycles of unequal machines, of which as few, or as cheap ones, as possible are used.

Shen et al., 2019 (Nexus), section 6.1, for machines of one kind: a session takes whole machines as long as its rate fills them, and what is
left over is packed, the fullest first, where the merged machine is fullest. Here a session has a profile for each kind of machine, memory
is a constraint, and several orders are tried, since the best one depends on how machines differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from polyrhythm.serving.duty_cycle import demands_of, fit, highest_throughput, largest_rate, mean_held, saturating_batch
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.serving_plan import Demand, MachinePlan
from polyrhythm.serving.sessions import PlanningRules, ServingMachine, ServingSession

_WORTH_SERVING = 1e-6
_FEW = 60
_ATTEMPTS = 24
_FULL = 1.05  # a longer cycle makes the batches that are there a little cheaper


@dataclass(frozen=True, slots=True)
class Choices:
    """The demand of each session on each kind of machine, where a profile says that its objective can be met at all."""

    sessions: tuple[ServingSession, ...]
    profiles: dict[tuple[str, str], LatencyProfile]
    rules: PlanningRules
    known: dict[tuple[str, str, int], tuple[float, float]] = field(default_factory=dict)

    def demand(self, session: ServingSession, machine: ServingMachine, rate: float) -> Demand | None:
        """The session at `rate` on that machine; None where it has no profile there, no memory, or no time for one request."""
        if not self.most(session, machine):
            return None
        _, budget = self._on(session, machine)
        return Demand(session.name, session.model, rate, budget, self.profiles[session.model, machine.kind], self.rules.deviations)

    def most(self, session: ServingSession, machine: ServingMachine) -> float:
        """The requests per second of the session that a whole machine serves; 0 where it serves none."""
        return self._on(session, machine)[0]

    def _on(self, session: ServingSession, machine: ServingMachine) -> tuple[float, float]:
        """The rate that a whole machine serves, and the seconds for waiting and computing."""
        key = (session.name, machine.kind, machine.memory)
        if key not in self.known:
            profile = self.profiles.get((session.model, machine.kind))
            budget = 0.0 if profile is None else session.slo - profile.outside - self.rules.network - self.rules.jitter
            spread = self.rules.deviations
            batch = 0 if profile is None else saturating_batch(profile, budget, machine.memory, spread)
            self.known[key] = (mean_held(batch, spread) / profile.latency(batch) if profile is not None and batch else 0.0, budget)
        return self.known[key]


@dataclass(slots=True)
class Packed:
    """Machines as they are filled: `open` are in use, `unused` are not, `left` is the rate of each session that has no place yet."""

    open: list[MachinePlan]
    unused: list[ServingMachine]
    left: dict[str, float] = field(default_factory=dict)

    def copy(self) -> Packed:
        """The same, to try something with."""
        return Packed(list(self.open), list(self.unused), dict(self.left))

    @property
    def value(self) -> tuple[float, float, float]:
        """The order of packings: less rate without a place, then less cost, then less time of machines taken."""
        cost = sum(each.machine.cost for each in self.open)
        return (round(sum(self.left.values()), 6), round(cost, 9), sum(each.occupancy * each.machine.cost for each in self.open))


Preference = Callable[[Choices, ServingSession, ServingMachine], tuple[float, ...]]
"""The order in which a session looks at unused machines, the lowest first."""


def fastest(choices: Choices, session: ServingSession, machine: ServingMachine) -> tuple[float, ...]:
    """The order of machines by the rate of the session that their cost buys, the highest first."""
    return (-choices.most(session, machine) / machine.cost,)


def cheapest(choices: Choices, session: ServingSession, machine: ServingMachine) -> tuple[float, ...]:
    """The order of machines by cost, and among equally expensive ones by the rate that they serve."""
    return (machine.cost, -choices.most(session, machine))


def slowest(choices: Choices, session: ServingSession, machine: ServingMachine) -> tuple[float, ...]:
    """The order of machines by the rate that their cost buys, the lowest first: fast ones are kept for others."""
    return (choices.most(session, machine) / machine.cost,)


Order = Callable[[ServingSession, float], tuple[float, ...]]
"""The order in which sessions are placed, by what a session is and the part of a machine that it fills, the lowest first."""


def fullest(one: ServingSession, filled: float) -> tuple[float, ...]:
    """The order by the part of a machine that a session fills, the largest first."""
    return (-filled,)


def strictest(one: ServingSession, filled: float) -> tuple[float, ...]:
    """The order by latency objective, the strictest first."""
    return (one.slo, -filled)


def most_patient(one: ServingSession, filled: float) -> tuple[float, ...]:
    """The order by latency objective, the longest first."""
    return (-one.slo, -filled)


def pack(choices: Choices, rates: dict[str, float], start: Packed) -> Packed:
    """The best packing of the sessions at `rates` on top of `start`, over several orders of sessions and of machines."""
    machines = [*start.unused, *(each.machine for each in start.open)]
    alike = len({(machine.kind, machine.cost, machine.memory) for machine in machines}) <= 1
    preferences = (fastest,) if alike else (fastest, cheapest, slowest)
    orders = (fullest, strictest, most_patient) if len(choices.sessions) <= _FEW else (fullest,)
    tried = [improved(choices, _greedy(choices, rates, order, preference, start.copy())) for preference in preferences for order in orders]
    return min(tried, key=lambda packed: packed.value)


def _greedy(choices: Choices, rates: dict[str, float], order: Order, preference: Preference, packed: Packed) -> Packed:
    kinds = {each.kind: each for each in (*packed.unused, *(each.machine for each in packed.open))}.values()
    places = {one.name: sum(choices.most(one, each) > 0 for each in kinds) for one in choices.sessions}
    ordered = sorted((one for one in choices.sessions if places[one.name]), key=lambda one: (places[one.name], order(one, 0.0), one.name))
    left = {one.name: _saturate(choices, one, rates.get(one.name, 0.0), preference, packed) for one in ordered}
    filled = {one.name: _occupancy(choices, one, left[one.name], kinds) for one in ordered}
    for one in sorted(ordered, key=lambda one: (places[one.name], order(one, filled[one.name]), one.name)):
        rest = left[one.name]
        if rest > _WORTH_SERVING and not _place(choices, one, rest, preference, packed):
            rest = _divide(choices, one, rest, packed)
            if rest > _WORTH_SERVING:
                packed.left[one.name] = rest
    return packed


def _saturate(choices: Choices, one: ServingSession, rate: float, preference: Preference, packed: Packed) -> float:
    """Give the session whole machines while its rate fills them, and return the rate that is left."""
    while rate > _WORTH_SERVING:
        serving = [each for each in packed.unused if choices.most(one, each)]
        if not serving:
            break
        machine = min(serving, key=lambda each: (*preference(choices, one, each), each.name))
        most = choices.most(one, machine)
        if most > rate:
            break
        demand = choices.demand(one, machine, most)
        made = None if demand is None else fit(machine, [demand])
        if made is None:
            break
        packed.unused.remove(machine)
        packed.open.append(made)
        rate -= most
    return rate


def _occupancy(choices: Choices, one: ServingSession, rate: float, machines: Iterable[ServingMachine]) -> float:
    """The part of a machine that the session fills by itself, on the kind where it fills least."""
    demands = [(machine, demand) for machine in machines if (demand := choices.demand(one, machine, rate)) is not None]
    alone = [made.occupancy for machine, demand in demands if (made := fit(machine, [demand])) is not None]
    return min(alone, default=0.0)


def _place(choices: Choices, one: ServingSession, rate: float, preference: Preference, packed: Packed) -> bool:
    """Add the session to the machine that is fullest with it, or else to an unused one."""
    best: tuple[float, int, MachinePlan] | None = None
    for index, each in enumerate(packed.open):
        demand = choices.demand(one, each.machine, rate)
        if demand is None or each.slot(one.name) is not None or not _has_room(each, demand, rate):
            continue
        made = fit(each.machine, [*demands_of(each), demand])
        if made is not None and (best is None or made.occupancy > best[0]):
            best = (made.occupancy, index, made)
    if best is not None:
        packed.open[best[1]] = best[2]
        return True
    for machine in sorted(packed.unused, key=lambda each: (*preference(choices, one, each), each.name)):
        demand = choices.demand(one, machine, rate)
        made = None if demand is None else fit(machine, [demand])
        if made is not None:
            packed.unused.remove(machine)
            packed.open.append(made)
            return True
    return False


def _divide(choices: Choices, one: ServingSession, rate: float, packed: Packed) -> float:
    """Fill what room there is with parts of a session that fits nowhere whole, and return the rate that is left."""
    for machine in list(packed.unused):
        demand = choices.demand(one, machine, rate)
        if demand is not None and (most := min(rate, largest_rate(machine, [], demand))) > _WORTH_SERVING:
            made = fit(machine, [replace(demand, rate=most)])
            if made is not None:
                packed.unused.remove(machine)
                packed.open.append(made)
                rate -= most
    for index, each in enumerate(packed.open):
        demand = choices.demand(one, each.machine, rate)
        if demand is None or each.slot(one.name) is not None or rate <= _WORTH_SERVING:
            continue
        held = demands_of(each)
        most = min(rate, largest_rate(each.machine, held, demand))
        made = fit(each.machine, [*held, replace(demand, rate=most)]) if most > _WORTH_SERVING else None
        if made is not None:
            packed.open[index] = made
            rate -= most
    return rate


def improved(choices: Choices, packed: Packed) -> Packed:
    """Empty machines into others as long as that is possible, the least occupied for its cost first, and take cheaper ones."""
    names = {one.name: one for one in choices.sessions}
    again = True
    while again:
        again = False
        emptied = sorted(packed.open, key=lambda one: (one.occupancy / one.machine.cost, one.machine.name))
        for each in emptied if len(names) <= _FEW else emptied[:_ATTEMPTS]:
            tried = packed.copy()
            tried.open = [other for other in tried.open if other is not each]
            moved = sorted(each.slots, key=lambda slot: -slot.seconds)
            if all(_move(choices, names[slot.session], slot.rate, tried) for slot in moved):
                tried.unused.append(each.machine)
                packed, again = tried, True
                break
    return _cheaper(choices, names, packed)


def _move(choices: Choices, one: ServingSession, rate: float, packed: Packed) -> bool:
    """Add the session to a machine that is in use; a part of it that is there already grows."""
    for index, each in sorted(enumerate(packed.open), key=lambda pair: -pair[1].occupancy):
        held = each.slot(one.name)
        demand = choices.demand(one, each.machine, rate + (held.rate if held is not None else 0.0))
        if demand is None or not _has_room(each, demand, rate):
            continue
        others = [other for other in demands_of(each) if other.session != one.name]
        made = fit(each.machine, [*others, demand])
        if made is not None:
            packed.open[index] = made
            return True
    return False


def _has_room(each: MachinePlan, demand: Demand, rate: float) -> bool:
    """False where `rate` more requests cannot fit even in the best batches; cheaper than to look for a duty cycle."""
    return each.occupancy + rate / highest_throughput(demand.profile) <= _FULL


def _cheaper(choices: Choices, names: dict[str, ServingSession], packed: Packed) -> Packed:
    """Exchange machines for unused ones that cost less and hold the same."""
    for index, each in enumerate(packed.open):
        for machine in sorted(packed.unused, key=lambda one: (one.cost, one.name)):
            if machine.cost >= each.machine.cost:
                break
            demands = [choices.demand(names[slot.session], machine, slot.rate) for slot in each.slots]
            made = None if None in demands else fit(machine, [demand for demand in demands if demand is not None])
            if made is not None:
                packed.unused.remove(machine)
                packed.unused.append(each.machine)
                packed.open[index] = made
                break
    return packed
