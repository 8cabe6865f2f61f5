"""The sizes of a family with their parameters, and which of them there is time for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from polyrhythm.tools.measuring.timing import shape_of
from polyrhythm.tools.planner.candidate import Pairs
from polyrhythm.tools.planner.look import Look
from polyrhythm.tools.planner.proxy.counted import CountedModel, counted
from polyrhythm.tools.planner.proxy.family import ProxyFamily
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.scaling.power_law import LEAST_SIZES

_WANTED = 4
"""Sizes that train, where they are not given."""
_APART = 1.3
"""And they have so many times the parameters of the next smaller one, at least."""
_PART = 0.5
"""Their runs may take this part of the time."""
_STEPS = 6
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SizedModel:
    """A size of the family, and its parameters."""

    settings: Pairs
    parameters: int


@dataclass(frozen=True, slots=True)
class CountedFamily:
    """The `sizes`, the smallest first, and the `true` model; a step of a worker has `batch` samples, which the JOB `counts` or not."""

    family: ProxyFamily
    sizes: tuple[SizedModel, ...]
    true: CountedModel
    batch: int
    counts: bool

    @property
    def true_size(self) -> SizedModel:
        """The model itself as a size."""
        return SizedModel(self.family.true, self.true.parameters)


def count_family(family: ProxyFamily, scenario: Scenario) -> CountedFamily:
    """Count all sizes and the true model. Raises PolyrhythmErrors for a JOB that cannot be run at one of them."""
    shape = shape_of(scenario.set(dict(family.sizes[0])))
    batch = shape.samples or scenario.batch or 1
    true = counted(scenario.set(dict(family.true)), batch)
    sizes = [SizedModel(size, counted(scenario.set(dict(size)), batch).parameters) for size in family.sizes]
    return CountedFamily(family, tuple(sorted(sizes, key=lambda size: size.parameters)), true, batch, shape.samples > 0)


def affordable(whole: CountedFamily, scenario: Scenario, runs: int, seconds: float) -> CountedFamily:
    """Four sizes, the largest of which can run so many times in a part of the `seconds`, as long as the JOB by its own settings.

    Steps of each are timed on this machine, from the smallest on; the smallest three are taken where there is time for none.
    """
    apart: list[SizedModel] = []
    for size in whole.sizes:
        if not apart or size.parameters >= _APART * apart[-1].parameters:
            apart.append(size)
    steps = scenario.samples(whole.batch) / whole.batch
    last = LEAST_SIZES
    for count in range(LEAST_SIZES, len(apart) + 1):
        if _step_seconds(apart[count - 1], scenario) * steps * runs > _PART * seconds:
            break
        last = count
    return replace(whole, sizes=tuple(apart[max(0, last - _WANTED) : last]))


def _step_seconds(size: SizedModel, scenario: Scenario) -> float:
    """The seconds of the quickest of a few steps, by the clock: the first ones load what all need."""
    found = Look(scenario, _SECONDS).trial(scenario.set(dict(size.settings)), _STEPS)
    return min((later - before for before, later in pairwise(found.moments)), default=_SECONDS)
