"""Sessions that share a machine by turns: the duty cycle and the batches that keep every objective, if there are any.

With a duty cycle of d seconds a session of rate r collects b = ⌈d r⌉ requests in a cycle. A request waits at most d for its turn and
l(b) for its batch, so l(b) + d ≤ L; and all batches must fit in a cycle, Σ l(b) ≤ d, and in memory (Nexus, Shen et al., 2019, section
6.1; its published code records memory and does not compare it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.serving_plan import Demand, DutySlot, MachinePlan
from polyrhythm.serving.sessions import ServingMachine

_ROUNDING = 1e-9
MOST_GROWTH = 64.0
"""The factor above which growth is not looked for."""
_HALVINGS = 24


@lru_cache(maxsize=100_000)
def mean_held(batch: int, deviations: float) -> float:
    """The mean of a Poisson number that `batch` holds with so many standard deviations: n + z √n = b."""
    root = (math.sqrt(deviations * deviations + 4 * batch) - deviations) / 2
    return root * root


def saturating_batch(profile: LatencyProfile, budget: float, memory: int, deviations: float = 0.0) -> int:
    """The batch with the highest throughput of those with 2 l(b) ≤ budget that fit in `memory`; 0 where there is none.

    A machine with one session waits for at most one batch before its own: hence twice.
    """
    fitting = [b for b in range(1, profile.largest_within(budget / 2) + 1) if profile.nbytes[b - 1] <= memory]
    return max(fitting, key=lambda b: (mean_held(b, deviations) / profile.latency(b), -b), default=0)


@lru_cache(maxsize=100_000)
def longest_duty(profile: LatencyProfile, budget: float, rate: float, deviations: float = 0.0) -> float:
    """The longest duty cycle with which a session keeps its objective: max over b of min(b / r, L − l(b)); 0 where there is none."""
    longest = 0.0
    for batch in range(1, profile.largest + 1):
        left = budget - profile.latency(batch)
        if left <= longest:
            break
        longest = max(longest, min(mean_held(batch, deviations) / rate if rate else math.inf, left))
    return longest


@lru_cache(maxsize=10_000)
def highest_throughput(profile: LatencyProfile) -> float:
    """The requests per second of the best batch, whatever the objective."""
    return max(profile.throughput(batch) for batch in range(1, profile.largest + 1))


def fit(machine: ServingMachine, demands: Sequence[Demand]) -> MachinePlan | None:
    """The duty cycle of `machine` with those sessions; None where none keeps every objective.

    Batches are worth most just before they grow: only duty cycles of b / r, or the longest at all, need to be looked at. The longest that
    fits is taken.
    """
    if not demands or sum(each.rate / highest_throughput(each.profile) for each in demands) > 1 + _ROUNDING:
        return None
    longest = min(longest_duty(each.profile, each.budget, each.rate, each.deviations) for each in demands)
    if longest <= 0:
        return None
    for duty in _cycles(demands, longest):
        slots = _slots(demands, duty)
        if slots is None:
            continue
        made = MachinePlan(machine, duty, slots)
        if made.occupancy <= 1 + _ROUNDING and made.nbytes <= machine.memory:
            return made
    return None


def largest_rate(machine: ServingMachine, others: Sequence[Demand], growing: Demand) -> float:
    """The highest rate of `growing` that fits beside `others`, in requests per second; 0 where none does."""
    low, high = 0.0, highest_throughput(growing.profile)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if fit(machine, [*others, _at(growing, middle)]) is None:
            high = middle
        else:
            low = middle
    return low


def largest_growth(machine: ServingMachine, demands: Sequence[Demand]) -> float:
    """The factor by which all of `demands` can grow together on `machine`; at most `MOST_GROWTH`."""
    low, high = 0.0, MOST_GROWTH
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if fit(machine, [_at(each, each.rate * middle) for each in demands]) is None:
            high = middle
        else:
            low = middle
    return low


def demands_of(plan: MachinePlan) -> list[Demand]:
    """The demands that a machine's plan serves."""
    return [Demand(slot.session, slot.model, slot.rate, slot.budget, slot.profile, slot.deviations) for slot in plan.slots]


def _at(demand: Demand, rate: float) -> Demand:
    return replace(demand, rate=rate)


def _cycles(demands: Sequence[Demand], longest: float) -> list[float]:
    """Duty cycles to look at, the longest first: that bound, and for each session the last before it at which its batch grows."""
    cycles = {longest}
    for each in demands:
        batch = batch_of(longest * each.rate, each.deviations)
        ends = [mean_held(b, each.deviations) / each.rate for b in range(max(1, batch - 2), batch + 1) if each.rate]
        cycles.update(end for end in ends if end <= longest)
    return sorted(cycles, reverse=True)


def batch_of(mean: float, deviations: float) -> int:
    """The batch that holds `mean` requests of a duty cycle with so many standard deviations; at least 1."""
    return max(1, math.ceil(mean + deviations * math.sqrt(mean) - _ROUNDING))


def _slots(demands: Sequence[Demand], duty: float) -> tuple[DutySlot, ...] | None:
    """The slots with that duty cycle; None where an objective would be missed, or a batch was not measured."""
    slots = []
    for each in demands:
        batch = batch_of(duty * each.rate, each.deviations)
        if batch > each.profile.largest or each.profile.latency(batch) + duty > each.budget * (1 + _ROUNDING):
            return None
        slots.append(DutySlot(each.session, each.model, each.rate, batch, each.budget, each.profile, each.deviations))
    return tuple(slots)
