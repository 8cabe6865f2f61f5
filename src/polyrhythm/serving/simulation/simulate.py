"""`simulate_serving`: a load on a site in virtual time, with the same batcher, routes and control as a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from polyrhythm.errors import CompositionError
from polyrhythm.serving.planning import plan
from polyrhythm.serving.requests import Dropped, InferenceRequest, Ok, Overdue, Rejected, ServingOutcome
from polyrhythm.serving.serving_plan import ServingPlan
from polyrhythm.serving.simulation.settings import OfferedLoad, SimulatedSite
from polyrhythm.serving.simulation.world import ServingWorld


@dataclass(frozen=True, slots=True)
class SessionTally:
    """The outcomes of one session's requests; latencies are in seconds from the due moment, of those that were computed."""

    session: str
    offered: int
    good: int
    late: int
    dropped: Mapping[str, int]
    rejected: int
    latencies: tuple[float, ...] = field(repr=False)

    @property
    def good_rate(self) -> float:
        """The part of all requests that was answered in time; 1 where none came."""
        return self.good / self.offered if self.offered else 1.0

    def percentile(self, percent: float) -> float | None:
        """The latency below which that part of the computed requests stayed; None where none was computed."""
        return float(np.percentile(self.latencies, percent)) if self.latencies else None


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """All requests with their outcomes, in the order in which they came, and the plans that were followed, with moment and reason.

    `most_bytes` is the most memory that a machine held, and `makespan` the moment of the last answer.
    """

    requests: tuple[tuple[InferenceRequest, ServingOutcome], ...] = field(repr=False)
    plans: tuple[tuple[float, str, ServingPlan], ...] = field(repr=False)
    most_bytes: Mapping[str, int]
    makespan: float

    def tally(self, since: float = 0.0, until: float = float("inf")) -> dict[str, SessionTally]:
        """The outcomes by session, of requests that were due from `since` to `until`."""
        by_session: dict[str, list[tuple[InferenceRequest, ServingOutcome]]] = {}
        for request, outcome in self.requests:
            if since <= request.arrival < until:
                by_session.setdefault(request.asked, []).append((request, outcome))
        return {name: _tally(name, each) for name, each in sorted(by_session.items())}


def simulate_serving(site: SimulatedSite, load: OfferedLoad, first: ServingPlan | None = None) -> ServedLoad:
    """Play `load` on `site`, from the plan `first`, or from one that is made for the sessions' rates.

    Every request gets exactly one outcome; the same arguments give the same result. Raises CompositionError for arrivals of a session that
    the site does not have.
    """
    if unknown := sorted(set(load.arrivals) - {one.name for one in site.members.asked(site.sessions)}):
        raise CompositionError(f"Requests come for {unknown[0]!r}, which is no session of the site: name one of its sessions.")
    begun = plan(site.sessions, site.machines, site.profiles, None, site.rules)[0] if first is None else first
    world = ServingWorld(site, begun, load)
    world.run()
    ordered = tuple(world.outcomes[number] for number in sorted(world.outcomes))
    makespan = max((outcome.finished for _, outcome in ordered), default=0.0)
    return ServedLoad(ordered, tuple(world.plans), dict(sorted(world.most_bytes.items())), makespan)


def _tally(session: str, answered: list[tuple[InferenceRequest, ServingOutcome]]) -> SessionTally:
    good = late = rejected = 0
    dropped: Counter[str] = Counter()
    latencies = []
    for request, outcome in answered:
        if isinstance(outcome, Ok | Overdue):
            good, late = good + isinstance(outcome, Ok), late + isinstance(outcome, Overdue)
            latencies.append(outcome.finished - request.arrival)
        elif isinstance(outcome, Dropped):
            dropped[outcome.reason] += 1
        else:
            rejected += isinstance(outcome, Rejected)
    return SessionTally(session, len(answered), good, late, dict(sorted(dropped.items())), rejected, tuple(latencies))
