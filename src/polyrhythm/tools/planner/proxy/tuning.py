"""The learning rates of a proxy plan: the base is tuned at the small sizes, each method against it at the smallest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from polyrhythm.tools.planner.candidate import ALONE, Candidate
from polyrhythm.tools.planner.proxy.rates import USUAL, RateLaw, best_factor, fit_rates
from polyrhythm.tools.planner.proxy.sizes import SizedModel
from polyrhythm.tools.planner.proxy.trials import Trials, WantedTrial

FACTORS = (1.0, 2.0, 0.5)
"""Of the rate of the base, for each method."""
_WIDE = (1.0, 2.0, 0.5, 4.0, 0.25)
_FURTHER = 2
"""So often the best rate of the first size may be at an end of those that were tried, and the next one is tried too."""
TUNED_SIZES = 3
_FAR = 4.0
"""Methods are followed as far as so many times the samples of the base, where they are tuned."""
_WORSE = 2.0
"""Rates that need so many times the samples of the best are not followed further."""


@dataclass(slots=True)
class RateTuning:
    """Tunes the setting `name`, which is `own` at `true` parameters, under `seed`; with neither nothing is tuned, and no rate is set."""

    trials: Trials
    name: str | None
    own: float
    true: int
    seed: int
    law: RateLaw | None = None
    factors: dict[Candidate, float] = field(default_factory=dict)
    tried: dict[int, dict[float, float]] = field(default_factory=dict)

    def at(self, method: Candidate, size: SizedModel) -> Candidate:
        """The method at a size, with its rate by the law."""
        return self._with(method, size, self.rate(method, size.parameters))

    def rate(self, method: Candidate, parameters: int) -> float | None:
        """The rate of a method at so many parameters; None where the JOB has no such setting."""
        if self.law is None:
            return None
        return float(f"{self.law.at(parameters) * self.factors.get(method, 1.0):.3g}")

    def tune_base(self, sizes: Sequence[SizedModel], samples: float, first_by: float, by: float) -> bool:
        """Tune the base at the smallest sizes, the first of which takes about so many samples; False where that missed the target."""
        center = self.own * (self.true / sizes[0].parameters) ** USUAL
        for place, size in enumerate(sizes[:TUNED_SIZES]):
            if place and self.name is not None:
                center = self._best(sizes[place - 1]) * (sizes[place - 1].parameters / size.parameters) ** USUAL
            limit = by if place else first_by
            self._try(size, [center * factor for factor in (FACTORS if place else _WIDE)], samples, limit)
            for _ in range(0 if place else _FURTHER):
                self._try(size, self._beyond(size), samples, limit)
            if not self._came(size):
                break
            samples = min(self.tried[size.parameters].values())
        reached = {parameters: found for parameters, found in self.tried.items() if min(found.values(), default=math.inf) < math.inf}
        if reached and self.name is not None:
            self.law = fit_rates(reached)
        return bool(reached)

    def _came(self, size: SizedModel) -> bool:
        return min(self.tried[size.parameters].values(), default=math.inf) < math.inf

    def ease(self, size: SizedModel) -> bool:
        """Take an easier target, to which a size came at the best of its rates; False where it has no values."""
        runs = {rate: self._with(ALONE, size, rate) for rate in self.tried.get(size.parameters, ())}
        eased = self.trials.ease(list(runs.values()), self.seed)
        self.tried.clear()
        return eased

    def tune_methods(self, methods: Sequence[Candidate], size: SizedModel, samples: float, by: float) -> None:
        """Tune the factor of each method on the base's rate, at one size at which the base takes so many samples.

        Methods whose best factor is the least or the greatest that was tried get the next one too: one that trains below its best rate at a
        small size catches up at a large one, and no law of its samples would show that.
        """
        if self.law is None:
            return
        found: dict[Candidate, dict[float, float]] = {method: {} for method in methods}
        wanted = {method: list(FACTORS) for method in methods}
        for _ in range(1 + _FURTHER):
            self._try_factors(found, wanted, size, samples, by)
            wanted = {method: _next_to_best(found[method]) for method in methods}
        self.factors = {method: best_factor(tried) for method, tried in found.items()}

    def _try_factors(
        self, found: dict[Candidate, dict[float, float]], wanted: dict[Candidate, list[float]], size: SizedModel, samples: float, by: float
    ) -> None:
        assert self.law is not None
        rate = self.law.at(size.parameters)
        runs = {(method, factor): self._with(method, size, rate * factor) for method, factors in wanted.items() for factor in factors}
        self.trials.make([WantedTrial(each, size.parameters, self.seed, samples) for each in runs.values()], by, lambda: _FAR * samples)
        for (method, factor), each in runs.items():
            if (each, self.seed) in self.trials.done:
                found[method][factor] = self.trials.samples(each, self.seed)

    def _with(self, method: Candidate, size: SizedModel, rate: float | None) -> Candidate:
        own = {} if self.name is None or not rate else {self.name: float(f"{rate:.3g}")}
        return method.with_settings({**dict(size.settings), **own})

    def _try(self, size: SizedModel, rates: Iterable[float], samples: float, by: float) -> None:
        runs = {rate: self._with(ALONE, size, rate) for rate in (rates if self.name is not None else (0.0,))}
        if not runs:
            return
        first = [WantedTrial(each, size.parameters, self.seed, samples) for each in runs.values()]
        found = self.tried.setdefault(size.parameters, {})
        known = min(found.values(), default=math.inf)
        self.trials.make(first, by, lambda: _WORSE * min(known, *(self.trials.samples(each, self.seed) for each in runs.values())))
        found |= {float(f"{rate:.3g}"): self.trials.samples(each, self.seed) for rate, each in runs.items()}

    def _best(self, size: SizedModel) -> float:
        found = self.tried[size.parameters]
        return min(found, key=found.__getitem__)

    def _beyond(self, size: SizedModel) -> list[float]:
        """The rate beyond the best one, where that is the least or the greatest that was tried."""
        return _next_to_best(self.tried[size.parameters]) if self.name is not None else []


def _next_to_best(tried: Mapping[float, float]) -> list[float]:
    """Twice or half the value with the fewest samples, where that is the greatest or the least that was tried."""
    best = min(tried, key=tried.__getitem__, default=None)
    if best is None or tried[best] == math.inf:
        return []
    return [best * 2] if best == max(tried) else [best / 2] if best == min(tried) else []
