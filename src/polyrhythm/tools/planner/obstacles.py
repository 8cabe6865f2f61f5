"""What stands in the way of a candidate: why it cannot be run at all, and the data that its machines have to fetch."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.errors import PolyrhythmError
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.data_site import fetching_seconds
from polyrhythm.tools.planner.scenario import Scenario


def obstacle_of(scenario: Scenario, candidate: Candidate) -> str:
    """Why the candidate cannot be run on these machines at all; empty where it can."""
    try:
        strategy = candidate.strategy
        used = strategy.workers(candidate.workers)
        strategy.check(used)
        scenario.trained(candidate)
    except PolyrhythmError as problem:
        return str(problem)
    if used != candidate.workers:
        return f"it uses {used} of {candidate.workers} workers"
    return "its workers write to the same memory, and here each is on a separate host" if strategy.shares_memory else ""


def delays(scenario: Scenario, candidate: Candidate, samples: float) -> Callable[[float, float], float]:
    """The moment, from seconds and samples of a run of the candidate, with the data that it fetches; the JOB has so many `samples`."""
    data = scenario.data
    assert data is not None, "else nothing is fetched"
    fetching = fetching_seconds(data, scenario.among(candidate).network, candidate.workers)
    whole = float(scenario.training or samples)
    return lambda seconds, used: data.delayed(seconds, used / whole, fetching)
