"""The course of a proxy plan: rates are tuned, and every method trains at every size, as far as there is time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from polyrhythm.errors import PolyrhythmError
from polyrhythm.tools.planner.budget import Budget
from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.proxy.family import size_name
from polyrhythm.tools.planner.proxy.sizes import CountedFamily, SizedModel
from polyrhythm.tools.planner.proxy.trials import Trials, WantedTrial
from polyrhythm.tools.planner.proxy.true_timing import TrueTiming, true_timing
from polyrhythm.tools.planner.proxy.tuning import TUNED_SIZES, RateTuning
from polyrhythm.tools.planner.scenario import Scenario, is_positive
from polyrhythm.tools.planner.space import RATES
from polyrhythm.tools.pools.pools import Done, Pool
from polyrhythm.tools.scaling.power_law import LEAST_SIZES

_STARTED_BY, _TUNED_BY, _METHODS_TUNED_BY, _TRAINED_BY = 0.4, 0.5, 0.6, 0.97
"""The base's rate is tuned at the smallest size, then at others, then those of the methods by these parts of the time that timing leaves;
all sizes train until the last part."""
_FIRST_PART = 1 / 4
"""The first run at the smallest size has this part of the JOB's samples."""
SEEDS = 3


@dataclass(slots=True)
class ProxyPlanner:
    """Runs `methods` and one machine alone at the sizes of `family` on the machines of `scenario`, under `seeds` seeds as time allows."""

    scenario: Scenario
    family: CountedFamily
    methods: Sequence[Candidate]
    pool: Callable[[Done], Pool]
    budget: Budget
    cache: MeasureCache
    seeds: int = SEEDS
    seen: Callable[[str], None] = lambda text: None
    refused: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    timings: dict[Candidate, TrueTiming] = field(default_factory=dict)
    trials: Trials = field(init=False)
    tuning: RateTuning = field(init=False)

    def __post_init__(self) -> None:
        scenario, family = self.scenario, self.family
        self.trials = Trials(scenario, family, self.pool, self.budget, self.cache, self.seen)
        rates = [(name, float(scenario.default(name))) for name in RATES if is_positive(scenario.default(name))]
        name, own = rates[0] if rates else (None, 0.0)
        self.tuning = RateTuning(self.trials, name, own, family.true.parameters, scenario.seed)

    @property
    def sizes(self) -> tuple[SizedModel, ...]:
        """The sizes, the smallest first."""
        return self.family.sizes

    @property
    def all_methods(self) -> list[Candidate]:
        """The base, and the methods that can be timed."""
        return [each for each in dict.fromkeys((ALONE, *self.methods)) if each in self.timings]

    @property
    def all_seeds(self) -> list[int]:
        """The first seed, and further ones."""
        return [self.scenario.seed + further for further in range(self.seeds)]

    def run(self) -> None:
        """Make all runs for which there is time. Raises PolyrhythmErrors for a JOB that cannot be run."""
        self._time()
        first, started = _FIRST_PART * self.scenario.samples(self.family.batch), self.budget.spent() / self.budget.seconds
        started_by, tuned_by, methods_by = (started + part * (1 - started) for part in (_STARTED_BY, _TUNED_BY, _METHODS_TUNED_BY))
        while not self.tuning.tune_base(self.sizes, first, started_by, tuned_by):
            if not self._give_way():
                return
        start = min(self.tuning.tried.get(self.sizes[0].parameters, {}).values(), default=first)
        together, middle = [each for each in self.all_methods if not each.is_alone], min(TUNED_SIZES, len(self.sizes)) - 1
        self.tuning.tune_methods(together, self.sizes[middle], self._base_at(middle, start), methods_by)
        for seed in self.all_seeds:
            for place in range(len(self.sizes)):
                self._train(place, seed, start)

    def _give_way(self) -> bool:
        """Leave out the smallest size, which does not come to the target; of three sizes, or where it had no time to, ease the target."""
        smallest, asked = self.sizes[0], self.scenario.target
        if len(self.sizes) > LEAST_SIZES and not self.trials.late:
            self.refused[size_name(smallest.settings)] = f"it did not come to {asked}"
            self.family = self.trials.family = replace(self.family, sizes=self.sizes[1:])
            return True
        if self.trials.target != asked or not self.tuning.ease(smallest):
            return False
        span = "the time that there is" if self.trials.late else "its longest training"
        self.remarks.append(
            f"The smallest proxy does not come to {asked} in {span}. What follows is for {self.trials.target}, to which it comes. Larger "
            f"proxies, a longer --budget, or a longer training by the JOB's settings may reach {asked}."
        )
        return True

    def _time(self) -> None:
        """Time every method on the true shapes; those that cannot be timed are refused."""
        for each in dict.fromkeys((ALONE, *self.methods)):
            self.seen(f"timing {each.name}")
            try:
                self.timings[each] = true_timing(self.scenario, each, self.family.true.shape)
            except PolyrhythmError as problem:
                self.refused[each.name] = str(problem)

    def _base_at(self, place: int, start: float) -> float:
        """The samples of the base at a size, as far as they are known; else those of the size before."""
        for before in range(place, -1, -1):
            found = [
                samples
                for seed in self.all_seeds
                if (samples := self.trials.samples(self.tuning.at(ALONE, self.sizes[before]), seed)) < math.inf
            ]
            fewest = min(self.tuning.tried.get(self.sizes[before].parameters, {}).values(), default=math.inf)
            if found or fewest < math.inf:
                return fmean(found) if found else fewest
        return start

    def _train(self, place: int, seed: int, start: float) -> None:
        """Train all methods at a size, each as long as it should take by what is known of it."""
        size = self.sizes[place]
        base = self._base_at(place, start)
        wanted = [WantedTrial(self.tuning.at(each, size), size.parameters, seed, base * self._penalty(each)) for each in self.all_methods]
        most = 4 * max(each.samples for each in wanted)
        self.trials.make(wanted, _TRAINED_BY, lambda: most)

    def _penalty(self, method: Candidate) -> float:
        """The penalty of a method at the last size at which it is known; 1 where none is."""
        for size in reversed(self.sizes):
            base, own = (self.trials.samples(self.tuning.at(each, size), self.scenario.seed) for each in (ALONE, method))
            if base < math.inf and own < math.inf:
                return max(0.5, own / base)
        return 1.5
