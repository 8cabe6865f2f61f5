"""The knowledge of a search: the runs that were made, the conclusions about each candidate, and those that were ruled out. All stages of a
search read and add to one `Findings`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import median

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.kernel.events import Evaluated, Reported
from polyrhythm.core.training.run import Attempt
from polyrhythm.tools.measuring.replay import StepShape
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.charged import charged_for
from polyrhythm.tools.planner.curves import samples_needed
from polyrhythm.tools.planner.lengths import Observed
from polyrhythm.tools.planner.machine_costs import limits_memory, priced, too_much, too_small
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.objective import TIME, Objective, Spent
from polyrhythm.tools.planner.obstacles import delays, obstacle_of
from polyrhythm.tools.planner.pace import StepPace
from polyrhythm.tools.planner.run_times import RunTimes
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.shapes import Shapes
from polyrhythm.tools.planner.space import Space
from polyrhythm.tools.planner.tasks import TIME_IS_UP, TrainingTask

LEEWAY = 1.5
"""A run continues until it has cost so many times what the best did: those that come near the best are ranked, not only refused."""
_FAR_BEHIND = 2.0
"""And so many times what one worker alone takes: then training together does not pay, and how little it does is not asked."""


@dataclass(slots=True)
class Findings:
    """Runs by candidate and seed; `refused` are reasons for candidates that cannot be, or cannot be best; `most_bytes` may a worker need.

    `foretold` are paces by timings, before a candidate's first run. `runs` counts those that were made, `kept` those that the cache knew;
    `metrics` are those that the JOB gives.
    """

    scenario: Scenario
    objective: Objective
    space: Space
    cache: MeasureCache
    most_bytes: float = math.inf
    trainings: dict[Candidate, dict[int, TrainedRun]] = field(default_factory=dict)
    refused: dict[Candidate, str] = field(default_factory=dict)
    foretold: dict[Candidate, StepPace] = field(default_factory=dict)
    runs: int = 0
    kept: int = 0
    metrics: set[str] = field(default_factory=set)
    _shapes: Shapes = field(default_factory=Shapes)
    _samples: tuple[Scenario, float] | None = None

    def printed(self, candidate: Candidate, samples: float, whole: bool = False) -> Candidate:
        """The candidate with all settings that it is run with outside of a search: the JOB's, and a length for so many samples.

        With the `whole` length also where that is the JOB's own.
        """
        scenario = self.scenario
        longer = scenario.longer(self._ahead(candidate) * samples, candidate.workers, self.batch(candidate))
        own = {} if scenario.length is None or not whole else scenario.length.times(1)
        return candidate.with_settings({**scenario.settings, **own, **longer})

    def observe(self, seen: Observed) -> None:
        """Go by what first runs of the JOB showed."""
        self.scenario = replace(self.scenario, observed=seen)
        self.space = replace(self.space, length=self.scenario.length if seen.scheduled else None)
        self.metrics |= seen.metrics

    # What is known of a candidate, under the first seed

    def training(self, candidate: Candidate) -> TrainedRun | None:
        """Its run, as far as one is known."""
        return self.trainings.get(candidate, {}).get(self.scenario.seed)

    def cost_of(self, candidate: Candidate) -> float:
        """The cost of its run to the target; infinite where that was not reached."""
        found = self.training(candidate)
        return math.inf if found is None else found.cost(self.objective_of(candidate), candidate.workers)

    def expected(self, candidate: Candidate) -> float:
        """The expected cost to the target, as far as the curve tells; infinite where it does not."""
        training = self.training(candidate)
        if training is None or training.error:
            return math.inf
        if training.end is not None:
            return training.cost(self.objective_of(candidate), candidate.workers)
        if training.cut:
            return math.inf
        return training.cost_of(self.needed(candidate), self.objective_of(candidate), candidate.workers)

    def typical(self, candidate: Candidate) -> float:
        """The median cost over its seeds, one that did not come to the target counting as infinite; expected where there is one."""
        costs = [training.cost(self.objective_of(candidate), candidate.workers) for training in self.trainings[candidate].values()]
        return median(costs) if len(costs) > 1 else self.expected(candidate)

    def order(self, candidate: Candidate) -> tuple[float, float]:
        """The sort key of a candidate: its typical cost, and where that is equal (times are read on a grid), its bytes to the target."""
        ends = [training.end for training in self.trainings[candidate].values() if training.end is not None]
        return self.typical(candidate), median([end.nbytes for end in ends]) if ends else math.inf

    def needed(self, candidate: Candidate) -> float:
        """Samples of all workers to the target, as far as the curve tells; infinite where it does not."""
        training = self.training(candidate)
        return math.inf if training is None else samples_needed(training, self.scenario.target)

    def least(self, candidate: Candidate) -> float:
        """Its cost on the fewest samples that any candidate has needed; 0 where no one has come to the target."""
        training = self.training(candidate)
        if training is None or self.fewest == math.inf:
            return 0.0
        return training.cost_of(self.fewest, self.objective_of(candidate), candidate.workers)

    def memory(self, candidate: Candidate) -> int | None:
        """Bytes of one of its workers: what it holds, and what backward() keeps; None where its run did not say."""
        held = max((training.held for training in self.trainings.get(candidate, {}).values()), default=0)
        return held + self.activations(candidate) if held else None

    def fits(self, candidate: Candidate) -> bool:
        """True if it fits its machines: their memory, and the caps of metered lines, as far as that is known."""
        return not self.unfit(candidate)

    def unfit(self, candidate: Candidate) -> str:
        """Why it does not fit its machines, with the figures; empty where it does."""
        trainings = self.trainings.get(candidate, {}).values()
        devices = self.scenario.among(candidate).devices
        needed = (self.memory(candidate) or 0) if limits_memory(devices, self.most_bytes) else 0
        beyond = (too_much(each.lines, each.end.nbytes) for each in trainings if each.end is not None)
        return too_small(devices, candidate.workers, needed, self.most_bytes) or next(filter(None, beyond), "")

    def objective_of(self, candidate: Candidate) -> Objective:
        """The objective at the prices of its machines and lines."""
        training = self.training(candidate)
        return priced(self.objective, self.scenario.among(candidate).devices, candidate.workers, {} if training is None else training.lines)

    # What is known of all

    @property
    def measured(self) -> bool:
        """True if any run gave the target's metric."""
        return any(training.curve for runs in self.trainings.values() for training in runs.values())

    @property
    def best(self) -> float:
        """The least cost of workers that came to the target together; infinite before the first."""
        return min((self.cost_of(each) for each in self.trainings if not each.is_alone and self.fits(each)), default=math.inf)

    @property
    def worth(self) -> float:
        """The cost at which a run is broken off: some times that of the best, and no more than many times that of one worker alone."""
        alone = self.best_alone
        return min(LEEWAY * self.best, _FAR_BEHIND * self.cost_of(alone) if self.offers(alone) else math.inf)

    def offers(self, candidate: Candidate) -> bool:
        """True if it may be the answer: it fits into memory, and one worker alone only where it may be quickest, or was asked for."""
        return (not candidate.is_alone or self.space.allows_alone or self.objective.name == TIME) and self.fits(candidate)

    @property
    def best_alone(self) -> Candidate:
        """The settings with which one worker alone comes to the target for the least, by all seeds; else those that came nearest."""
        tried = [each for each in self.trainings if each.is_alone and self.trainings[each]]
        target = self.scenario.target

        def order(candidate: Candidate) -> tuple[bool, float, float]:
            found = self.trainings[candidate]
            values = [value for training in found.values() if (value := training.best(target)) is not None]
            nearest = target.best(values) if values else (-math.inf if target.higher_is_better else math.inf)
            costs = [training.cost(self.objective_of(candidate), 1) for training in found.values()]
            return median(costs) == math.inf, median(costs), -nearest if target.higher_is_better else nearest

        return min(tried, key=order, default=ALONE)

    @property
    def fewest(self) -> float:
        """The fewest samples that any candidate has needed; infinite before one has reached the target."""
        ends = [training.end.samples for each in self.trainings if (training := self.training(each)) is not None and training.end]
        return min(ends, default=math.inf)

    def ranked(self) -> list[Candidate]:
        """The candidates that reached the target, the best first."""
        reached = [each for each in self.trainings if self.offers(each) and self.cost_of(each) < math.inf]
        return sorted(reached, key=self.cost_of)

    @property
    def run_times(self) -> RunTimes:
        """What runs take by the clock."""
        return RunTimes(((each, run) for each, runs in self.trainings.items() for run in runs.values()), self.batch)

    # What the JOB is like

    def shape(self, candidate: Candidate | None = None) -> StepShape:
        """The shape of the JOB's steps, by its own settings or with a candidate's batch; observed once."""
        return self._shapes.shape(batch := self._own_batch(candidate), lambda: self._with_batch(batch))

    def activations(self, candidate: Candidate | None = None) -> int:
        """Bytes that backward() keeps, with a candidate's batch; observed once."""
        return self._shapes.activations(batch := self._own_batch(candidate), lambda: self._with_batch(batch))

    def batch(self, candidate: Candidate) -> int:
        """Samples of a worker's step; where the JOB counts none, its batch by name, or one."""
        counted, (name, own) = self.shape().samples or self.scenario.batch or 1, self.space.batch or ("", 1)
        return max(1, round(counted * float(dict(candidate.settings).get(name, own)) / own))

    def read(self, candidate: Candidate, attempt: Attempt, steps: int) -> TrainedRun:
        """The results of a run of it, which was to take so many steps."""
        found = TrainedRun.of(attempt, self.scenario.target, steps, 0 if self.counts else self.batch(candidate), candidate.strategy.chooses)
        return found if self.scenario.data is None else found.delayed(delays(self.scenario, candidate, self.samples))

    def per_step(self, candidate: Candidate) -> float:
        """Samples of a step of all its workers."""
        return float(candidate.workers * self.batch(candidate))

    @property
    def counts(self) -> bool:
        """True if the JOB counts the samples of a step: by `worker.batches`, a sampler or `worker.count`."""
        return self.shape().samples > 0

    def steps(self, candidate: Candidate, samples: float) -> int:
        """The steps of each worker for so many samples of all: those of the fastest, where none waits, and those that it skips."""
        return max(1, math.ceil(self._ahead(candidate) * samples / self.per_step(candidate)))

    def _ahead(self, candidate: Candidate) -> float:
        """How many steps its fastest worker takes for a step of all, by its own run or by a timing."""
        if training := self.training(candidate):
            return training.ahead(self.per_step(candidate))
        timed = [each for each in self.foretold if each.system == candidate.system]
        nearest = min(timed, key=lambda each: abs(math.log(each.workers / candidate.workers)), default=None)
        return 1.0 if nearest is None else self.foretold[nearest].ahead

    def shortest(self, candidate: Candidate) -> float:
        """The fewest samples that it can train on: where workers skip steps that others take, those of an epoch."""
        if not candidate.strategy.chooses:
            return 0.0
        return float(self.scenario.training or (self.scenario.observed.pass_length or 0) * self.batch(ALONE))

    @property
    def samples(self) -> float:
        """The samples that the JOB computes on by its own settings."""
        if self._samples is None or self._samples[0] is not self.scenario:
            self._samples = self.scenario, self.scenario.samples(self.batch(ALONE))
        return self._samples[1]

    def impossible(self, candidate: Candidate) -> str:
        """Why the candidate cannot be run on these machines at all; empty where it can."""
        return obstacle_of(self.scenario, candidate)

    def task(self, candidate: Candidate, seed: int, steps: int, most: float, deadline: float) -> TrainingTask:
        """A run of so many steps, each of which takes as long as one that was observed: nothing need be counted."""
        here, per_step = self.charged(self.scenario, candidate), self.per_step(candidate)
        return TrainingTask(here, candidate, self.objective_of(candidate), seed, steps, most, deadline, per_step)

    def charged(self, scenario: Scenario, candidate: Candidate) -> Scenario:
        """Its machines, which take for each step what the observed operations of one take."""
        return charged_for(scenario, candidate, self.shape(candidate).flops, self.batch(candidate))

    def take_kept(self, candidate: Candidate, seed: int, steps: int, most: float) -> bool:
        """Take a known run instead of making one; true if there is one that went as far as a new one would."""
        held = self.trainings.setdefault(candidate, {})
        known = [held[seed]] if seed in held else [self.cache.get(self._key(candidate, seed, cut), TrainedRun) for cut in (False, True)]
        for training in known:
            if training is not None and self._far(candidate, training, steps, most):
                self.kept += seed not in held
                held[seed] = training
                self.judge(candidate)
                return True
        return False

    def _far(self, candidate: Candidate, known: TrainedRun, steps: int, most: float) -> bool:
        if known.cut == TIME_IS_UP:
            return False
        if known.end is not None:
            return True
        if known.cut:
            return self.objective_of(candidate).cost(Spent(known.seconds, known.nbytes, candidate.workers)) >= most
        return known.over or known.limit >= steps

    def keep(self, candidate: Candidate, seed: int, steps: int, attempt: Attempt) -> TrainedRun:
        """Note what came of a run. One that was too late replaces none, and says nothing of a further seed."""
        training, known = self.read(candidate, attempt, steps), self.trainings.setdefault(candidate, {})
        self.runs += 1
        self.metrics.update(name for event in attempt.outcome.events if isinstance(event, Evaluated | Reported) for name in event.metrics)
        if training.cut != TIME_IS_UP:
            known[seed] = training
            self.cache.put(self._key(candidate, seed, bool(training.cut)), training)
        self.judge(candidate)
        return known.setdefault(seed, training) if seed == self.scenario.seed else training

    def judge(self, candidate: Candidate) -> None:
        """Refuse what does not fit; early curves were wrong about what has come to the target."""
        if reason := self.unfit(candidate):
            self.refused[candidate] = reason
        elif self.cost_of(candidate) < math.inf:
            self.refused.pop(candidate, None)

    def _own_batch(self, candidate: Candidate | None) -> int | None:
        if candidate is None or self.space.batch is None:
            return None
        return next((int(value) for name, value in candidate.settings if name == self.space.batch[0]), None)

    def _with_batch(self, batch: int | None) -> Train:
        return self.scenario.set({} if batch is None or self.space.batch is None else {self.space.batch[0]: batch})

    def _key(self, candidate: Candidate, seed: int, cut: bool) -> str:
        """The cache key of a run; a run that was broken off has another than one that ended, so it does not replace a shorter one."""
        return self.scenario.key(candidate, "cut" if cut else "training", str(self.scenario.target), seed)
