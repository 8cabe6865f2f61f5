"""Short runs in which the crew changes: for how long the others stand still after a worker was lost or has joined."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import time

import msgspec

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import AnyEvent, CrewChanged, Stepped
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.records.progress import Watch, ignore
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import BrokenOff, PlainEpochsWarning, PolyrhythmError
from polyrhythm.hardware.faults import Crash, Join
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.tasks import TIME_IS_UP, failed

WORKER, FIRST, NEWCOMER = "a lost worker", "a lost first worker", "a newcomer"
"""What happens to a crew."""
_STANDSTILLS = "standstills"
"""The note of a run with the seconds by what happened."""


@dataclass(frozen=True, slots=True)
class CrewTask:
    """A run of so many `steps` of each worker in which a worker is lost at the time `lost`, and a newcomer begins at `joined`.

    If the `first` worker is the lost one, nobody joins.
    """

    scenario: Scenario
    candidate: Candidate
    seed: int
    steps: int
    lost: float
    joined: float
    first: bool
    deadline: float

    @property
    def name(self) -> str:
        """The candidate's name in progress lines."""
        return self.candidate.name

    def attempt(self, directory: Path | None, watch: Watch = ignore, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run. What is kept of it are the seconds for which others stood still (`standstills`)."""
        workers = self.candidate.workers
        crash = Crash(worker(0 if self.first else workers - 1), self.lost)
        here = self.scenario.elsewhere(faults=(*self.scenario.faults, crash, *([] if self.first else [Join(self.joined)])))

        def follow(event: AnyEvent) -> None:
            watch(event)
            if time() > self.deadline:
                raise BrokenOff(TIME_IS_UP)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PlainEpochsWarning)  # `polyrhythm run --workers 2..4` shows it
                tried = attempt(
                    Limited(here.trained(self.candidate), self.steps, self.candidate.strategy.chooses, _no_evaluation),
                    workers=Crew(workers - 1, workers, replace=False),
                    strategy=self.candidate.strategy,
                    on=here.on(self.seed),
                    seed=self.seed,
                    watch=follow,
                )
        except PolyrhythmError as problem:
            return self.failed(problem)
        tried.outcome.settings[_STANDSTILLS] = msgspec.json.encode(self._found(tried.outcome.events)).decode()
        tried.outcome.events.clear()
        tried.outcome.weights.clear()
        return tried

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        return failed(self.scenario, self.candidate, self.seed, error)

    def _found(self, events: Sequence[AnyEvent]) -> Mapping[str, float]:
        admitted = any(isinstance(event, CrewChanged) and event.joined for event in events)
        windows = {FIRST: (self.lost, float("inf"))} if self.first else {WORKER: (self.lost, self.joined)}
        if admitted:
            windows[NEWCOMER] = (self.joined, float("inf"))
        found = {what: standstill(events, self.lost, *window) for what, window in windows.items()}
        return {what: seconds for what, seconds in found.items() if seconds is not None}


def standstill(events: Iterable[AnyEvent], before: float, begin: float, end: float) -> float | None:
    """How much longer a worker waited for a step between `begin` and `end` than ever until `before`, in seconds; of all the most.

    None where no worker has taken steps in both times.
    """
    times: dict[str, list[float]] = {}
    for event in events:
        if isinstance(event, Stepped):
            times.setdefault(event.actor, []).append(event.time)
    longer: list[float] = []
    for own in times.values():
        usual = [there - here for here, there in pairwise(own) if there <= before]
        later = [there - here for here, there in pairwise(own) if begin < there and here < end]
        if usual and later:
            longer.append(max(0.0, round(max(later) - max(usual), 9)))
    return max(longer, default=None)


def standstills(tried: Attempt) -> dict[str, float]:
    """The seconds by what happened, as far as a run has come."""
    return msgspec.json.decode(tried.outcome.settings.get(_STANDSTILLS, "{}"), type=dict[str, float])


def _no_evaluation(count: int, at: Callable[[int], Mapping[str, float]]) -> None:
    """Evaluate at no moment: only time is asked for."""
