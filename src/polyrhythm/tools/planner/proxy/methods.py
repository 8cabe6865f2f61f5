"""The methods of a proxy plan: all that were named, where these are few, or those that lead a search at the smallest size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from polyrhythm.core.job_files.settings import Train
from polyrhythm.systems import SYSTEMS
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.planner.proxy.matched import matched
from polyrhythm.tools.planner.proxy.sizes import CountedFamily
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.space import RATES
from polyrhythm.tools.pools.pools import Done, Pool

MOST_WAYS = 8
"""So many ways of training run at every size."""
_CHOSEN = 5
_SEARCHED_FOR = 0.3
"""The search may take this part of the time."""


def named_ways(request: PlanRequest) -> list[Candidate]:
    """All systems of a request with all its numbers of workers, where these are few; none where they are many."""
    systems = [name for name in request.systems or SYSTEMS if name != ALONE.system]
    found = [Candidate(name, count) for name in systems for count in request.workers if count > 1]
    return found if len(found) <= MOST_WAYS else []


def leading_ways(
    request: PlanRequest, train: Train, scenario: Scenario, whole: CountedFamily, pool: Callable[[Done], Pool]
) -> list[Candidate]:
    """The ways that lead a search at the smallest size, on machines that are matched to the true model."""
    smallest = whole.sizes[0]
    there = matched(scenario, whole.true, smallest.parameters)
    settings = {**request.settings, **dict(smallest.settings)}
    short = replace(
        request, network=there.network, devices=there.devices, settings=settings, budget=_SEARCHED_FOR * request.budget, cache=request.cache
    )
    found = short.planner(train, scenario.job, pool, scenario.facts).plan()
    ways = [each.candidate for each in found.choices if not each.is_alone]
    return [_without_rate(each) for each in ways[:_CHOSEN]]


def _without_rate(candidate: Candidate) -> Candidate:
    return replace(candidate, settings=tuple(pair for pair in candidate.settings if pair[0] not in RATES))
