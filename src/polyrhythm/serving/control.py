"""The control loop of a site that serves: beacons to estimates of rates, and when to plan anew. Pure, for virtual and for real time.

After Shen et al., 2019, section 5; its published code estimates a rate by the last sample alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError

_DEVIATIONS = 3.0


@dataclass(frozen=True, slots=True)
@checked
class ControlRules:
    """Seconds between beacons, and when plans change.

    A machine that missed `missed` beacons is dead. A rate that has risen by more than `hysteresis` of what is planned calls for a plan, at
    least `shortest` seconds after the last one; one that has fallen waits for the end of an `epoch`. So do more than `most_drops` of a
    session's requests in three beacons that follow one another. `smoothing` is the weight of the last beacon in the moving averages.
    """

    beacon: float = 1.0
    epoch: float = 30.0
    shortest: float = 10.0
    missed: int = 3
    hysteresis: float = 0.15
    most_drops: float = 0.01
    smoothing: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.beacon <= self.shortest <= self.epoch < math.inf or self.missed < 1 or not 0 < self.smoothing <= 1:
            raise CompositionError(
                f"Beacons every {self.beacon} s, plans every {self.shortest} to {self.epoch} s, {self.missed} missed beacons and a "
                f"smoothing of {self.smoothing} do not fit: give 0 < beacon <= shortest <= epoch, missed >= 1, and 0 < smoothing <= 1."
            )


@dataclass(frozen=True, slots=True)
class Beacon:
    """A sign of life of a machine or an entrance at `time`, with the requests that came and that were dropped since, by session."""

    sender: str
    time: float
    arrived: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """Moving averages of a session's requests per second, and of their variance from one beacon to the next."""

    mean: float
    variance: float
    last: float
    dropping: int = 0

    @property
    def planned(self) -> float:
        """The rate to plan for: the higher of the average and the last, and one standard deviation."""
        return max(self.mean, self.last) + math.sqrt(self.variance)


@dataclass(frozen=True, slots=True)
class ControlState:
    """Knowledge of the loop: estimates by session, when each machine was heard, the averages at the last plan, and who is dead."""

    estimates: Mapping[str, RateEstimate]
    heard: Mapping[str, float]
    base: Mapping[str, float]
    planned_at: float = 0.0
    dead: frozenset[str] = frozenset()

    @classmethod
    def begin(cls, rates: Mapping[str, float], machines: Sequence[str], now: float = 0.0) -> ControlState:
        """The state after a first plan for `rates`, with every machine heard just now."""
        estimates = {name: RateEstimate(rate, rate, rate) for name, rate in rates.items()}
        return cls(estimates, dict.fromkeys(machines, now), dict(rates), now)


@dataclass(frozen=True, slots=True)
class Replan:
    """A plan is due for these rates, on the machines that are not in `dead`; `reason` is "lost", "back", "rate", "drops" or "epoch"."""

    reason: str
    rates: Mapping[str, float]
    dead: frozenset[str]


def control(state: ControlState, now: float, beacons: Sequence[Beacon], rules: ControlRules) -> tuple[ControlState, Replan | None]:
    """One turn of the loop, once for every beacon interval: the next state, and the plan that is due, if one is."""
    estimates = _estimated(state, beacons, rules)
    heard = {**state.heard, **{each.sender: each.time for each in beacons if each.sender in state.heard}}
    silent = rules.missed * rules.beacon * (1 - 1e-9)
    dead = frozenset(name for name, time in heard.items() if now - time >= silent)
    known = replace(state, estimates=estimates, heard=heard, dead=dead)
    reason = _reason(known, state.dead, now, rules)
    if reason is None:
        return known, None
    base = {name: each.mean for name, each in estimates.items()}
    planned = {name: each.planned for name, each in estimates.items()}
    return replace(known, base=base, planned_at=now), Replan(reason, planned, dead)


def _estimated(state: ControlState, beacons: Sequence[Beacon], rules: ControlRules) -> dict[str, RateEstimate]:
    """The estimates after the beacons of one interval."""
    arrived: dict[str, int] = {}
    dropped: dict[str, int] = {}
    for each in beacons:
        for name, count in each.arrived.items():
            arrived[name] = arrived.get(name, 0) + count
        for name, count in each.dropped.items():
            dropped[name] = dropped.get(name, 0) + count
    weight, made = rules.smoothing, {}
    for name, before in state.estimates.items():
        last = arrived.get(name, 0) / rules.beacon
        off = last - before.mean
        over = dropped.get(name, 0) > rules.most_drops * max(1, arrived.get(name, 0))
        variance = (1 - weight) * (before.variance + weight * off * off)
        made[name] = RateEstimate(before.mean + weight * off, variance, last, before.dropping + 1 if over else 0)
    return made


def _reason(state: ControlState, dead: frozenset[str], now: float, rules: ControlRules) -> str | None:
    """Why a plan is due; None where none is."""
    if state.dead != dead:
        return "lost" if state.dead - dead else "back"
    since = now - state.planned_at + 1e-9
    if since < rules.shortest:
        return None
    if any(_off(state, name, rules) > 0 for name in state.estimates):
        return "rate"
    if any(each.dropping >= rules.missed for each in state.estimates.values()):
        return "drops"
    if since >= rules.epoch and any(_off(state, name, rules) < 0 for name in state.estimates):
        return "epoch"
    return None


def _off(state: ControlState, name: str, rules: ControlRules) -> int:
    """1 for a rate that has risen beyond the hysteresis and the noise of its average, −1 for one that has fallen, else 0."""
    estimate, base = state.estimates[name], state.base.get(name, 0.0)
    variance = max(estimate.variance, estimate.mean / rules.beacon)  # at least that of Poisson's arrivals
    noise = _DEVIATIONS * math.sqrt(variance * rules.smoothing / (2 - rules.smoothing))
    off = estimate.mean - base
    return 0 if abs(off) <= rules.hysteresis * base + noise else int(math.copysign(1, off))
