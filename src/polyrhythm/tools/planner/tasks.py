"""The runs of a plan, each a task for a pool of processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, time

import msgspec

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import AnyEvent, Evaluated, Reported, Stepped
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch, ignore
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import BrokenOff, PolyrhythmError
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.machine_costs import lines_of
from polyrhythm.tools.planner.objective import Objective, Spent
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.pools.side_by_side import or_one_by_one

HELD = "bytes held by worker 0"
"""The note of a run with what its worker 0 holds between steps."""
REAL = "real seconds"
"""The note with how long the run took by the clock."""
LINES = "metered lines"
"""The note with the part of all bytes that each metered line carried."""
_THIRD = 3
CUT = "ended early"
"""The note of a run that was to continue, with the reason why it did not."""
_TOO_MUCH = "it costs more than the best"
_REGARDLESS = 3.0
"""A training function that does not take its batches from `worker.batches` is broken off at so many times the cost."""
_STEPS = 64
"""Of the steps of a worker so many are kept."""
TIME_IS_UP = "the time was up"


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """A run with real gradients, under `seed`, of so many `steps` of each worker, or until it has cost over `most`.

    All workers end after the same step, and what there was until then is evaluated. It is broken off, and nothing is evaluated, if it goes
    on regardless, and when `deadline` has come, in seconds of the clock of the day.
    """

    scenario: Scenario
    candidate: Candidate
    objective: Objective
    seed: int
    steps: int
    most: float = math.inf
    deadline: float = math.inf

    @property
    def name(self) -> str:
        """The candidate's name in progress lines."""
        return self.candidate.name

    def elsewhere(self, scenario: Scenario) -> TrainingTask:
        """The task on the machines of another scenario."""
        return replace(self, scenario=scenario)

    def attempt(self, directory: Path | None, watch: Watch = ignore, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run. What is kept of its events are evaluations, and some of each worker's steps."""
        return or_one_by_one(self.scenario.on(self.seed), lambda on: self._attempt(on, watch))

    def _attempt(self, on: Runtime, watch: Watch) -> Attempt:
        strategy, began, furthest = self.candidate.strategy, monotonic(), 0
        limited = Limited(self.scenario.trained(self.candidate), self.steps, strategy.chooses, Sparing(self.scenario.target))

        def follow(event: AnyEvent) -> None:
            nonlocal furthest
            watch(event)
            if isinstance(event, Stepped):
                furthest = max(furthest, event.clock)
                if self._spent_by(event, limited.last):
                    limited.end_after(furthest + 1)  # one more is under way

        try:
            tried = attempt(
                limited,
                workers=self.candidate.workers,
                strategy=strategy,
                on=on,
                seed=self.seed,
                watch=follow,
            )
        except PolyrhythmError as problem:
            return self.failed(problem)
        if lines := lines_of(tried.outcome.events, self.scenario.network, self.candidate.workers):
            tried.outcome.settings[LINES] = msgspec.json.encode(lines).decode()
        tried.outcome.events[:] = kept(tried.outcome.events)
        tried.outcome.weights.clear()
        if limited.noted.last is not None:
            tried.outcome.settings[CUT] = _TOO_MUCH
        tried.outcome.settings[HELD], tried.outcome.settings[REAL] = str(limited.noted.held), str(monotonic() - began)
        return tried

    def _spent_by(self, event: Stepped, last: int) -> bool:
        """True if it has cost too much by then. Raises BrokenOff where it continues after the `last` step, and when time is up."""
        cost = self.objective.cost(Spent(event.time, event.bytes_sent, self.candidate.workers))
        if event.clock > last and cost > _REGARDLESS * self.most:
            raise BrokenOff(_TOO_MUCH)
        if time() > self.deadline:
            raise BrokenOff(TIME_IS_UP)
        return cost > self.most

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        return failed(self.scenario, self.candidate, self.seed, error)


@dataclass(frozen=True, slots=True)
class Sparing:
    """Evaluates at the first moment, every third, and all before one that meets the target: some JOBs evaluate longer than they train."""

    target: Target

    def __call__(self, count: int, at: Callable[[int], Mapping[str, float]]) -> None:
        """Choose from the `count` moments those to evaluate, and evaluate them by `at`."""
        some = sorted({0, *range((count - 1) % _THIRD, count, _THIRD)})
        met = next((place for place in some if self._met_by(at(place))), None)
        if met is not None:
            next((place for place in range(met) if self._met_by(at(place))), None)

    def _met_by(self, metrics: Mapping[str, float]) -> bool:
        return self.target.metric in metrics and self.target.met_by(metrics[self.target.metric])


def kept(events: list[AnyEvent]) -> list[AnyEvent]:
    """Evaluations and reports, and of each actor's steps the first, the last and some between, in the order in which they were taken."""
    steps: dict[str, list[Stepped]] = {}
    for event in events:
        if isinstance(event, Stepped):
            steps.setdefault(event.actor, []).append(event)
    some = [event for own in steps.values() for event in (*own[: -1 : -(-len(own) // _STEPS)], own[-1])]
    return [*(event for event in events if isinstance(event, Evaluated | Reported)), *some]


def failed(scenario: Scenario, candidate: Candidate, seed: int, error: PolyrhythmError) -> Attempt:
    on = scenario.on(seed)
    summary = Summary(candidate.system, candidate.workers, on.kind, on.network_name, seed, error=str(error))
    return Attempt(Outcome(summary, state="failed"), error)
