"""What a search believes of each candidate: a distribution of its cost to the target, and with it the probability that it is the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polyrhythm.core import rng
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.cells import SampleCell
from polyrhythm.tools.planner.chosen_machines import ChosenMachines
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.forecast import deviation
from polyrhythm.tools.planner.learning_curves import LearningCurves, Needed, broad
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.objective import Objective
from polyrhythm.tools.planner.pace import StepPace
from polyrhythm.tools.planner.samples_law import OWN, Observation, SamplesLaw
from polyrhythm.tools.planner.shared_curves import SharedCurves

Array = NDArray[np.float64]

_DRAWN = 400
NEAR = 1.05
"""A candidate counts as the best where no other costs less than it by more than this factor."""
_FEWER = 0.5
"""What has not come to the target needs at least this part of the fewest samples that any needed."""
_FEW = 3
"""Candidates with as many samples in a step, or more, that must have come to the target before they say what others need."""
_MISSED = 0.5
"""A seed under which the target was missed counts as so many e-folds more samples than it had."""
_QUANTILES = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Belief:
    """The belief about a candidate: `samples` has the logarithm of what it needs, `mean` and `deviation` are of that of its cost.

    `taken` are the samples that its longest run without the target has had; `reached` seeds came there. `timed` says that its own steps
    were.
    """

    samples: Needed
    pace: StepPace
    mean: float
    deviation: float
    taken: float
    reached: int
    timed: bool


@dataclass(slots=True)
class Beliefs:
    """Beliefs about the candidates in `pool`, from all runs that there are."""

    shared: SharedCurves
    pool: Sequence[Candidate]
    found: Findings = field(init=False)
    between_seeds: float = field(init=False)
    curves: LearningCurves = field(init=False)
    _law: SamplesLaw = field(init=False)
    _own: dict[SampleCell, Needed] = field(init=False)
    _cells: list[SampleCell] = field(init=False)
    _beliefs: dict[Candidate, Belief] = field(init=False)
    _costs: Array = field(init=False)
    _places: dict[Candidate, int] = field(init=False)
    _objectives: dict[tuple[int, ChosenMachines], Objective] = field(default_factory=dict)
    _curves: dict[Candidate, tuple[Array, Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.found = found = self.shared.found
        space, cells = found.space, self.shared.cells
        self.pool = list(dict.fromkeys([*self.pool, *(each for each in found.trainings if found.trainings[each])]))
        self._cells = [cells.of(each) for each in self.pool]
        self._places = {each: place for place, each in enumerate(self.pool)}
        runs = self._runs()
        self.between_seeds = self._between(runs)
        self.curves = curves = LearningCurves(
            found.scenario.target, [each.curve[: each.reached + 1] for each in map(_whole, runs.values()) if each]
        )
        seen = {cell: needed for cell, own in runs.items() if (needed := self._needed(own, curves)) is not None}
        every = [cells.terms(each, space) for each in self.pool]
        terms = dict(zip(self._cells, every, strict=True))
        self._law = SamplesLaw(found.samples, [Observation(terms[cell], needed) for cell, needed in seen.items()], every)
        self._own = seen
        self._judge(every, runs)

    def of(self, candidate: Candidate) -> Belief:
        """The belief about a candidate of the pool."""
        return self._beliefs[candidate]

    def probability(self, candidate: Candidate) -> float:
        """The probability that no other costs less, by more than a few per cent."""
        if candidate not in self._beliefs:
            return 0.0
        own = self._costs[self._places[candidate]]
        others = np.delete(self._costs, self._places[candidate], axis=0)
        return float((own <= math.log(NEAR) + others.min(0)).mean()) if len(others) else 1.0

    def improvement(self, candidate: Candidate, answer: float) -> tuple[float, float]:
        """By how much it is expected to lower the logarithm of a cost, `answer`, and the probability that it does.

        This is the expected improvement of Bayesian optimization (Jones, Schonlau and Welch, 1998).
        """
        below = answer - self._costs[self._places[candidate]]
        return float(np.maximum(below, 0.0).mean()), float((below > 0).mean())

    def samples_for(self, candidate: Candidate, cost: float) -> float:
        """The samples that it can have for a cost."""
        at, costs = self._curves[candidate]
        if cost == math.inf or costs[-1] <= costs[0]:
            return math.inf
        wanted, slope = math.log(max(cost, _LEAST)), (at[-1] - at[0]) / (costs[-1] - costs[0])
        if wanted >= costs[-1]:
            return math.exp(min(700.0, at[-1] + slope * (wanted - costs[-1])))
        return math.exp(float(np.interp(wanted, costs, at)))

    def _runs(self) -> dict[SampleCell, dict[int, TrainedRun]]:
        """The run that tells most of each cell, for each seed."""
        best: dict[SampleCell, dict[int, TrainedRun]] = {}
        for each in self.found.trainings:
            own = best.setdefault(self.shared.cells.of(each), {})
            for seed, training in self.found.trainings[each].items():
                if not training.error and (seed not in own or _tells(training) > _tells(own[seed])):
                    own[seed] = training
        return {cell: runs for cell, runs in best.items() if runs}

    def _between(self, runs: Mapping[SampleCell, Mapping[int, TrainedRun]]) -> float:
        values = {
            str(place): [each.end.samples for each in own.values() if each.end is not None] for place, own in enumerate(runs.values())
        }
        return deviation(values)[0]

    def _needed(self, runs: Mapping[int, TrainedRun], curves: LearningCurves) -> Needed | None:
        """What the runs of a cell say of the samples that it needs."""
        ends = [each.end.samples for each in runs.values() if each.end is not None]
        prior = broad(self.found.samples)
        if ends:
            missed = [math.log(max(each.samples, *ends)) + _MISSED for each in runs.values() if each.end is None]
            values = [*(math.log(max(end, 1.0)) for end in ends), *missed]
            return Needed(sum(values) / len(values), self.between_seeds / math.sqrt(len(values)))
        longest = max(runs.values(), key=lambda each: each.samples)
        return curves.needed(longest.curve, longest.samples, prior).without(prior)

    def _judge(self, every: Sequence[Mapping[str, float]], runs: Mapping[SampleCell, Mapping[int, TrainedRun]]) -> None:
        """Combine the law with what each has shown, and draw."""
        found, law = self.found, self._law
        means, spreads = law.predicted(every)
        paces, rows = self.shared.paces(), law.rows(every)
        random = rng.stream(found.scenario.seed, "beliefs", len(self.pool))
        sizes = law.mean + random.standard_normal((_DRAWN, len(law.names))) @ np.linalg.cholesky(law.covariance).T
        own_draws = {cell: random.standard_normal(_DRAWN) for cell in dict.fromkeys(self._cells)}
        fewest = self._fewest()
        self._beliefs, costs = {}, []
        for place, (candidate, cell) in enumerate(zip(self.pool, self._cells, strict=True)):
            own, known = self._own.get(cell), runs.get(cell, {})
            ended = sum(each.end is not None for each in known.values())
            taken = 0.0 if ended else max((each.samples for each in known.values()), default=0.0)
            least = -math.inf if ended else max(fewest(found.per_step(candidate)), math.log(taken) if taken else -math.inf)
            shown = 0.0 if own is None else 1 / max(own.deviation, 1e-3) ** 2
            part = 1 / OWN**2 / (1 / OWN**2 + shown)
            itself = math.sqrt(1 / (1 / OWN**2 + shown))
            towards = 0.0 if own is None else (1 - part) * own.mean
            samples = Needed(max(least, part * means[place] + towards), math.hypot(part * spreads[place], itself))
            drawn = part * (sizes @ rows[place] + math.log(found.samples)) + towards + itself * own_draws[cell]
            pace = paces.of(candidate)
            at, cost = self._curves[candidate] = self._curve(candidate, pace, samples)
            spread = float(cost[3] - cost[1]) / max(float(at[3] - at[1]), _LEAST) * samples.deviation
            slower = np.maximum(pace.deviation * random.standard_normal(_DRAWN), self._computing_alone(candidate, pace, samples.mean))
            timing = np.interp(np.maximum(drawn, least), at, cost) + slower
            self._beliefs[candidate] = Belief(
                samples, pace, float(cost[2]), math.hypot(spread, pace.deviation), taken, ended, found.training(candidate) is not None
            )
            allowed = found.offers(candidate) and not self._barred(candidate)
            costs.append(timing if allowed else np.full(_DRAWN, np.inf))
        self._costs = np.array(costs)

    def _fewest(self) -> Callable[[float], float]:
        """The logarithm of the fewest samples that a candidate with so many in a step can need.

        Larger steps need no fewer samples: a bound is given by those that came to the target with at least as many in a step as some
        number below, where there are a few of them.
        """
        found = self.found
        known = [(found.per_step(each), run.end.samples) for each in found.trainings if (run := found.training(each)) and run.end]
        floors = []
        for per_step, _ in known:
            above = [samples for other, samples in known if other >= per_step]
            if len(above) >= _FEW:
                floors.append((per_step, math.log(_FEWER * max(1.0, min(above)))))
        everywhere = math.log(_FEWER * found.fewest) if found.fewest < math.inf else -math.inf
        return lambda per_step: max([everywhere, *(floor for least, floor in floors if least <= per_step)])

    def _computing_alone(self, candidate: Candidate, pace: StepPace, samples: float) -> float:
        """By how much its cost would be lower, as a logarithm, if it exchanged nothing: it cannot be lower than that."""
        per_step, needed = self.found.per_step(candidate), math.exp(samples)
        objective, fastest = self._objective(candidate), StepPace((0.0, 0.0, 0.0), self.shared.computing(candidate), 0.0)
        least, own = (objective.cost(each.spent(needed, per_step, candidate.workers)) for each in (fastest, pace))
        return min(0.0, math.log(max(least, _LEAST) / max(own, _LEAST)))

    def _objective(self, candidate: Candidate) -> Objective:
        """At the prices of its machines; asked once for each set of these where no line is metered."""
        training = self.found.training(candidate)
        if training is not None and training.lines:
            return self.found.objective_of(candidate)
        key = candidate.workers, candidate.machines
        if key not in self._objectives:
            self._objectives[key] = self.found.objective_of(candidate)
        return self._objectives[key]

    def _barred(self, candidate: Candidate) -> bool:
        """True if it cannot be the answer, whatever it needs: it does not run."""
        training = self.found.training(candidate)
        return training is not None and bool(training.error)

    def _curve(self, candidate: Candidate, pace: StepPace, samples: Needed) -> tuple[Array, Array]:
        """Logarithms of samples, and of what these cost."""
        found, per_step = self.found, self.found.per_step(candidate)
        objective = self._objective(candidate)
        at = samples.mean + max(samples.deviation, 1e-3) * _QUANTILES
        training = found.training(candidate)

        def cost(needed: float) -> float:
            return math.log(max(objective.cost(pace.spent(needed, per_step, candidate.workers)), _LEAST))

        costs = np.array([cost(float(each)) for each in np.exp(at)])
        if training is not None and training.end is not None:  # what it was at its end is known
            costs += math.log(max(found.cost_of(candidate), _LEAST)) - cost(training.end.samples)
        return at, costs


def _whole(runs: Mapping[int, TrainedRun]) -> TrainedRun | None:
    return next((each for each in runs.values() if each.end is not None), None)


def _tells(training: TrainedRun) -> tuple[bool, bool, float]:
    """The sort key by which a run says more of the samples that are needed."""
    return training.end is not None, not training.like, training.samples
