"""The runs of a plan, each a task for a pool of processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
from polyrhythm.tools.planner.early_end import EarlyEnd, Prospect
from polyrhythm.tools.planner.lengths import Observed
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.machine_costs import lines_of
from polyrhythm.tools.planner.objective import Objective, Spent
from polyrhythm.tools.planner.run_notes import CUT, HELD, LINES, PAUSED, REAL
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.pools.side_by_side import or_one_by_one

_THIRD = 3
_MOMENTS, _EVALUATING = 60, 0.3
"""Of about so many moments so many are evaluated that this takes at most so large a part of the training."""
_NEAR = 0.1
"""A value is near the target with this part of the way still to go, or less."""
_TOO_MUCH = "it costs more than the best"
_REGARDLESS = 3.0
"""A training function that does not take its batches from `worker.batches` is broken off at so many times the cost."""
BEYOND = 1.25
"""A run whose first worker meets the target goes on for so many times as long: the result may come there later."""
_STEPS = 64
"""Of the steps of a worker so many are kept."""
TIME_IS_UP = "the time was up"


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """A run with real gradients, under `seed`, of so many `steps` of each worker, or until it has cost over `most`.

    All workers end after the same step, and what there was until then is evaluated. It is broken off, and nothing is evaluated, if it goes
    on regardless, and when `deadline` has come, in seconds of the clock of the day.

    It ends soon after worker 0's own weights meet the target, if the result does; and as soon as the `prospect` has it that it hardly will.
    All workers together have `per_step` samples in a step. After `patience` seconds by the clock it ends too, and may be continued.
    """

    scenario: Scenario
    candidate: Candidate
    objective: Objective
    seed: int
    steps: int
    most: float = math.inf
    deadline: float = math.inf
    per_step: float = 1.0
    prospect: Prospect | None = None
    patience: float = math.inf

    @property
    def name(self) -> str:
        """The candidate's name in progress lines."""
        return self.candidate.name

    def elsewhere(self, scenario: Scenario) -> TrainingTask:
        """The task on the machines of another scenario."""
        return replace(self, scenario=scenario)

    def attempt(self, directory: Path | None, watch: Watch = ignore, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make the run. What is kept of its events are evaluations, and some of each worker's steps."""
        return or_one_by_one(self.scenario.on(self.seed), lambda on: self._attempt(on, watch, looks=True))

    def _attempt(self, on: Runtime, watch: Watch, looks: bool) -> Attempt:
        """Make the run on a runtime; one that `looks` may end before its last step."""
        target, strategy, seen = self.scenario.target, self.candidate.strategy, self.scenario.observed
        early = EarlyEnd(target, self.per_step, self.prospect, seen.untrained, seen.evaluating) if looks else None
        limited = Limited(self.scenario.trained(self.candidate), self.steps, strategy.chooses, Sparing(target, self._apart(seen)), early)
        ending = _Ending(self, limited, watch)
        try:
            tried = attempt(
                limited,
                workers=self.candidate.workers,
                strategy=strategy,
                on=on,
                seed=self.seed,
                watch=ending.follow,
            )
        except PolyrhythmError as problem:
            return self.failed(problem)
        if early is not None and early.met and not ending.cut and target.first_reached(tried.outcome) is None:
            return self._attempt(on, watch, looks=False)  # the result did not come there
        notes = tried.outcome.settings
        if lines := lines_of(tried.outcome.events, self.scenario.network, self.candidate.workers):
            notes[LINES] = msgspec.json.encode(lines).decode()
        tried.outcome.events[:] = kept(tried.outcome.events)
        tried.outcome.weights.clear()
        if ending.cut:
            notes[CUT] = ending.cut
        elif limited.noted.last is not None:
            notes[PAUSED] = str(limited.noted.last)
        notes[HELD], notes[REAL] = str(limited.noted.held), str(monotonic() - ending.began)
        return tried

    def _apart(self, seen: Observed) -> int:
        """How far apart moments are evaluated: every third, or fewer where evaluating would take a large part of the run."""
        training = self.steps * self.candidate.workers * seen.real
        return next((each for each in (3, 6) if min(self.steps, _MOMENTS) / each * seen.evaluating <= _EVALUATING * training), 12)

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a run of which only `error` is known."""
        return failed(self.scenario, self.candidate, self.seed, error)


@dataclass(slots=True)
class _Ending:
    """Ends a run of `task` before its last step: `cut` says that it has cost too much by then."""

    task: TrainingTask
    limited: Limited
    watch: Watch
    began: float = field(default_factory=monotonic)
    cut: str = ""
    _clocks: dict[str, int] = field(default_factory=dict)
    _steps: int = 0
    _until: float = math.inf

    def follow(self, event: AnyEvent) -> None:
        """Let all workers end after the next step where it is time. Raises BrokenOff as `_spent_by` does."""
        self.watch(event)
        if not isinstance(event, Stepped):
            return
        limited, early = self.limited, self.limited.early
        self._steps += event.clock - self._clocks.get(event.actor, 0)
        self._clocks[event.actor] = event.clock
        if early is not None:
            early.taken = self.task.per_step * self._steps / self.task.candidate.workers
            if early.met or early.hopeless:
                self._until = min(self._until, BEYOND * event.time if early.met else event.time)
        if self._spent_by(event) and limited.noted.last is None:
            self.cut = _TOO_MUCH
        if self.cut or event.time >= self._until or monotonic() > self.began + self.task.patience:
            limited.end_after(max(self._clocks.values()) + 1)  # one more is under way

    def _spent_by(self, event: Stepped) -> bool:
        """True if it has cost too much by then. Raises BrokenOff where it continues after the last step, and when time is up."""
        task = self.task
        cost = task.objective.cost(Spent(event.time, event.bytes_sent, task.candidate.workers))
        if event.clock > self.limited.last and cost > _REGARDLESS * task.most:
            raise BrokenOff(_TOO_MUCH)
        if time() > task.deadline:
            raise BrokenOff(TIME_IS_UP)
        return cost > task.most


@dataclass(frozen=True, slots=True)
class Sparing:
    """Evaluates at some moments, and where these show that the target may have been met: some JOBs evaluate longer than they train.

    First come the untrained model and moments back from the last one, so many `apart` and then more, and every third in between up to the
    first that meets the target; last all before it that are next to one which had come near.
    """

    target: Target
    apart: int = 3

    def __call__(self, count: int, at: Callable[[int], Mapping[str, float]]) -> None:
        """Choose from the `count` moments those to evaluate, and evaluate them by `at`."""
        known: dict[int, float] = {}

        def value(place: int) -> float:
            if place not in known:
                known[place] = at(place).get(self.target.metric, math.nan)
            return known[place]

        some = sorted({0, *_back(count, self.apart)})
        met = next((place for place in some if self.target.met_by(value(place))), None)
        if met is None:
            return
        before = max((place for place in some if place < met), default=0)
        between = [place for place in range(met % _THIRD, met, _THIRD) if place > before]
        met = next(place for place in (*between, met) if self.target.met_by(value(place)))
        for place in range(met):
            near = place not in known and any(self._near(known[0], known[other]) for other in _beside(place, known))
            if near and self.target.met_by(value(place)):
                return

    def _near(self, start: float, value: float) -> bool:
        """True if the value is near the target, beside where the untrained model was."""
        return self.target.met_by(value) or abs(value - self.target.value) <= _NEAR * abs(start - self.target.value)


def _back(count: int, apart: int) -> Iterator[int]:
    """Places back from the last of so many: `apart`, and so that there are a few for each half of what is left."""
    place = count - 1
    while place > 0:
        yield place
        place -= max(apart, _THIRD * ((count - 1 - place) // (4 * _THIRD)))


def _beside(place: int, known: Collection[int]) -> list[int]:
    """The places on both sides that are known."""
    below = max((each for each in known if each < place), default=None)
    above = min((each for each in known if each > place), default=None)
    return [each for each in (below, above) if each is not None]


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
