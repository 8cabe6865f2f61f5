"""The division of a query's latency objective among its models, so that the machines for all of them are fewest.

A dynamic programme over segments of time (Shen et al., 2019, section 6.2): f(v, t) = min over 1 ≤ k ≤ t of r_v / T_v(k) + Σ f(c, t − k).
Here k may be all of t, also at a leaf; in the published code a leaf can never use its whole budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.serving.duty_cycle import mean_held, saturating_batch
from polyrhythm.serving.latency_profile import LatencyProfile
from polyrhythm.serving.query import Query, SeriesParallel, reduced
from polyrhythm.serving.sessions import PlanningRules, ServingSession

_DEFAULT = PlanningRules()
_ALL_MEMORY = 2**62


class LatencySplit(Protocol):
    """A rule that divides a query's objective among its nodes."""

    def sessions(self, query: Query, profiles: Sequence[LatencyProfile], rules: PlanningRules = _DEFAULT) -> tuple[ServingSession, ...]:
        """A session for each node, named `query/node`; their objectives along every path add up to at most the query's."""


@dataclass(frozen=True, slots=True)
@checked
class OptimalSplit:
    """The division in `segments` equal parts of time that needs the fewest machines at full use, of the best kind for each model."""

    segments: int = 40

    def __post_init__(self) -> None:
        if self.segments < 1:
            raise CompositionError(f"OptimalSplit(segments={self.segments}) divides nothing: give at least 1.")

    def sessions(self, query: Query, profiles: Sequence[LatencyProfile], rules: PlanningRules = _DEFAULT) -> tuple[ServingSession, ...]:
        """A session for each node. Raises CompositionError where no division meets the objective."""
        curves = {
            node.name: [
                machines_needed(query.rates[node.name], _of(profiles, node.model), query.slo * k / self.segments, rules)
                for k in range(self.segments + 1)
            ]
            for node in query.nodes
        }
        whole = reduced(query)
        if math.isinf(_costs(whole, curves)[self.segments]):
            raise CompositionError(
                f"No division of {query.slo * 1e3:.4g} ms among the {len(query.nodes)} models of {query.name!r} gives each the time "
                "of two single requests: raise the objective."
            )
        parts: dict[str, int] = {}
        _assign(whole, self.segments, curves, parts)
        return _sessions(query, {name: query.slo * k / self.segments for name, k in parts.items()})


@dataclass(frozen=True, slots=True)
@checked
class EvenSplit:
    """The same time for every model on the longest path, whatever it costs: a baseline."""

    def sessions(self, query: Query, profiles: Sequence[LatencyProfile], rules: PlanningRules = _DEFAULT) -> tuple[ServingSession, ...]:
        """A session for each node, with the objective over the number of nodes on the longest path."""
        depth: dict[str, int] = {}
        for node in query.nodes:
            depth[node.name] = 1 + max((depth[name] for name in node.after), default=0)
        return _sessions(query, dict.fromkeys(depth, query.slo / max(depth.values())))


def machines_needed(rate: float, profiles: Sequence[LatencyProfile], slo: float, rules: PlanningRules) -> float:
    """The machines at full use that serve `rate` within `slo` seconds, of the best kind; infinite where none can."""
    least = math.inf
    for profile in profiles:
        budget = slo * (1 + 1e-12) - profile.outside - rules.network - rules.jitter
        batch = saturating_batch(profile, budget, _ALL_MEMORY, rules.deviations)
        if batch:
            least = min(least, rate * profile.latency(batch) / mean_held(batch, rules.deviations))
    return least


def _of(profiles: Sequence[LatencyProfile], model: str) -> list[LatencyProfile]:
    return [profile for profile in profiles if profile.model == model]


def _sessions(query: Query, slo: dict[str, float]) -> tuple[ServingSession, ...]:
    rates = query.rates
    return tuple(ServingSession(f"{query.name}/{node.name}", node.model, slo[node.name], rates[node.name]) for node in query.nodes)


def _costs(part: SeriesParallel, curves: dict[str, list[float]]) -> list[float]:
    """The machines that a part needs with 0, 1, … segments of time."""
    if part.first is None or part.second is None:
        return curves[part.node]
    first, second = _costs(part.first, curves), _costs(part.second, curves)
    if part.parallel:
        return [one + other for one, other in zip(first, second, strict=True)]
    return [min(first[k] + second[t - k] for k in range(t + 1)) for t in range(len(first))]


def _depth(part: SeriesParallel) -> int:
    """The number of nodes on the longest path."""
    if part.first is None or part.second is None:
        return 1
    first, second = _depth(part.first), _depth(part.second)
    return max(first, second) if part.parallel else first + second


def _assign(part: SeriesParallel, time: int, curves: dict[str, list[float]], parts: dict[str, int]) -> None:
    """Write the segments of every node into `parts`, if this part has `time` of them."""
    if part.first is None or part.second is None:
        parts[part.node] = time
    elif part.parallel:
        _assign(part.first, time, curves, parts)
        _assign(part.second, time, curves, parts)
    else:
        first, second = _costs(part.first, curves), _costs(part.second, curves)
        even = time * _depth(part.first) / _depth(part)
        # where more time saves nothing, all parts get some: short duty cycles would leave no room for several models on one machine
        k = min(range(time + 1), key=lambda k: (round(first[k] + second[time - k], 9), abs(k - even)))
        _assign(part.first, k, curves, parts)
        _assign(part.second, time - k, curves, parts)
