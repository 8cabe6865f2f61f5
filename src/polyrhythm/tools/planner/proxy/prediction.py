"""From the laws and timings to times of the true model, with intervals, and the probability of each order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from polyrhythm.core.streams import stream
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.proxy.sample_law import Numbers, PenaltyLaw, SampleLaw
from polyrhythm.tools.planner.proxy.true_timing import TrueTiming
from polyrhythm.tools.report.estimates import RESAMPLED

INNER = (0.05, 0.95)
"""Bounds between which nine of ten further runs should lie."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What is predicted of a method at the true size, and `first`, the probability that it is the fastest."""

    samples: Interval
    seconds: Interval
    nbytes: Interval
    penalty: Interval
    first: float


def predicted(
    base: SampleLaw, penalties: Mapping[Candidate, PenaltyLaw], timings: Mapping[Candidate, TrueTiming], parameters: int
) -> dict[Candidate, Predicted]:
    """The predictions for all methods with a timing, the fastest first.

    The law of the base is drawn once for all, so that what is uncertain of it does not blur the order. Bounds also contain the scatter
    between seeds; the probabilities are those of medians.
    """
    methods = [each for each in penalties if each in timings]
    common = base.drawn_at(parameters)
    needed = {each: common * penalties[each].drawn_at(parameters) for each in methods}
    medians = np.stack([_seconds(timings[each], needed[each]) for each in methods])
    first = np.bincount(np.argmin(medians, axis=0), minlength=len(methods)) / medians.shape[1]
    found = {}
    for place, each in enumerate(methods):
        scatter = np.exp(base.scatter * stream(0, f"further run of {each.name}").standard_normal(RESAMPLED))
        runs = needed[each] * scatter
        middle = base.at(parameters) * penalties[each].at(parameters)
        seconds, nbytes = timings[each].at(middle)
        found[each] = Predicted(
            _around(runs, middle),
            _around(_seconds(timings[each], runs), seconds),
            _around(np.asarray([timings[each].at(samples)[1] for samples in runs]), nbytes),
            _around(penalties[each].drawn_at(parameters), penalties[each].at(parameters)),
            float(first[place]),
        )
    return dict(sorted(found.items(), key=lambda pair: pair[1].seconds.middle))


def _seconds(timing: TrueTiming, samples: Numbers) -> Numbers:
    return np.asarray([timing.at(each)[0] for each in samples])


def _around(draws: Numbers, middle: float) -> Interval:
    low, high = np.quantile(draws, INNER)
    return Interval(min(float(low), middle), middle, max(float(high), middle))


def paired(base: Mapping[int, Mapping[int, float]], method: Mapping[int, Mapping[int, float]]) -> dict[int, list[float]]:
    """Ratios of samples under the same seeds, by parameters; seeds that both came to the target under."""
    found: dict[int, list[float]] = {}
    for parameters, own in method.items():
        ratios = [each / base[parameters][seed] for seed, each in own.items() if seed in base.get(parameters, {})]
        if ratios and all(map(math.isfinite, ratios)):
            found[parameters] = ratios
    return found
