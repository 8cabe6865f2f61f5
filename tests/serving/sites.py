"""Models with straight latencies, random sites, and the exact smallest number of machines, for tests of serving."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from polyrhythm.serving import LatencyProfile, MachinePlan, PlanningRules, ServingMachine, ServingSession
from polyrhythm.serving.serving_plan import Demand, DutySlot

MB = 10**6
EXACT = PlanningRules(network=0.0, jitter=0.0, headroom=0.0, deviations=0.0)
"""Nothing is kept free: packings alone are compared."""


def straight(model: str, slope: float, start: float, kind: str = "gpu", nbytes: int = 100 * MB, largest: int = 64) -> LatencyProfile:
    """l(b) = slope b + start."""
    batches = range(1, largest + 1)
    return LatencyProfile(model, kind, tuple(slope * b + start for b in batches), tuple(nbytes for _ in batches))


def machines(count: int, kind: str = "gpu", memory: int = 8000 * MB, cost: float = 1.0) -> list[ServingMachine]:
    return [ServingMachine(f"{kind}-{index:02}", kind, memory, cost) for index in range(count)]


def random_site(
    draw: random.Random, count: int, kinds: dict[str, float], low: float = 0.05, high: float = 0.95
) -> tuple[list[ServingSession], list[LatencyProfile]]:
    """Sessions that need from `low` to `high` of the first kind of machine; another kind is slower by its factor."""
    sessions, profiles = [], []
    for index in range(count):
        slope, start, slo = draw.uniform(0.0005, 0.003), draw.uniform(0.003, 0.02), draw.uniform(0.05, 0.3)
        nbytes = draw.randint(200, 3000) * MB
        own = [straight(f"m{index}", slope * slower, start * slower, kind, nbytes) for kind, slower in kinds.items()]
        slo = max(slo, 2.5 * own[0].latency(1))
        batch = own[0].largest_within(slo / 2)
        sessions.append(ServingSession(f"s{index}", f"m{index}", slo, draw.uniform(low, high) * own[0].throughput(batch)))
        profiles += own
    return sessions, profiles


def keeps(machine: ServingMachine, demands: Sequence[Demand]) -> bool:
    """True if any duty cycle keeps every objective: all those at which some batch is about to grow are looked at."""
    longest = min(each.budget for each in demands)
    cycles = {
        cycle
        for each in demands
        for b in range(1, each.profile.largest + 1)
        for cycle in (b / each.rate, each.budget - each.profile.latency(b))
        if 0 < cycle <= longest
    }
    return any(holds(machine, demands, cycle) for cycle in cycles)


def holds(machine: ServingMachine, demands: Sequence[Demand], cycle: float) -> bool:
    """True if this duty cycle keeps every objective, by the inequalities of the paper."""
    seconds, nbytes = 0.0, 0
    for each in demands:
        batch = max(1, math.ceil(cycle * each.rate - 1e-9))
        if batch > each.profile.largest or each.profile.latency(batch) + cycle > each.budget + 1e-9:
            return False
        seconds += each.profile.latency(batch)
        nbytes += each.profile.nbytes[batch - 1]
    return seconds <= cycle + 1e-9 and nbytes <= machine.memory


def fewest_machines(sessions: Sequence[ServingSession], profiles: Sequence[LatencyProfile], machine: ServingMachine) -> int:
    """The exact smallest number of machines of one kind, over all partitions of the sessions (dynamic programme over subsets)."""
    by_model = {each.model: each for each in profiles}
    demands = [Demand(one.name, one.model, one.rate, one.slo, by_model[one.model]) for one in sessions]
    count = len(demands)
    fits = [bool(subset) and keeps(machine, _chosen(demands, subset)) for subset in range(1 << count)]
    fewest = [0] + [count + 1] * ((1 << count) - 1)
    for subset in range(1, 1 << count):
        first, part = subset & -subset, subset
        while part:
            if part & first and fits[part]:
                fewest[subset] = min(fewest[subset], 1 + fewest[subset ^ part])
            part = (part - 1) & subset
    return fewest[-1]


def least_cost(sessions: Sequence[ServingSession], profiles: Sequence[LatencyProfile], site: Sequence[ServingMachine]) -> float:
    """The exact least cost of unequal machines, as an integer programme over the subsets that fit on each kind (HiGHS)."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    known = {(each.model, each.kind): each for each in profiles}
    kinds = list(dict.fromkeys((each.kind, each.memory, each.cost) for each in site))
    columns: list[tuple[int, tuple[int, ...]]] = []
    for place, (kind, memory, cost) in enumerate(kinds):
        machine = ServingMachine("any", kind, memory, cost)
        for size in range(1, len(sessions) + 1):
            for chosen in itertools.combinations(range(len(sessions)), size):
                parts = [sessions[index] for index in chosen]
                demands = [Demand(one.name, one.model, one.rate, one.slo, known[one.model, kind]) for one in parts]
                if keeps(machine, demands):
                    columns.append((place, chosen))
    cover = np.array([[float(index in chosen) for _, chosen in columns] for index in range(len(sessions))])
    used = np.array([[float(place == other) for place, _ in columns] for other in range(len(kinds))])
    counts = [sum((each.kind, each.memory, each.cost) == kind for each in site) for kind in kinds]
    cost = np.array([kinds[place][2] for place, _ in columns])
    limits = [LinearConstraint(cover, 1, 1), LinearConstraint(used, 0, counts)]
    found = milp(cost, constraints=limits, integrality=np.ones(len(columns)), bounds=Bounds(0, 1))
    return float(found.fun) if found.success else math.inf


def _chosen(demands: Sequence[Demand], subset: int) -> list[Demand]:
    return [each for index, each in enumerate(demands) if subset >> index & 1]


def slot_of(profile: LatencyProfile, batch: int, budget: float, session: str = "s") -> DutySlot:
    return DutySlot(session, profile.model, batch / budget, batch, budget, profile)


def machine_of(*slots: DutySlot) -> MachinePlan:
    return MachinePlan(ServingMachine("m", "gpu", 10**12), sum(slot.seconds for slot in slots), slots)
