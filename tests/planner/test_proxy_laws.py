"""Laws of proxy plans: samples, penalties and rates of synthetic families whose exponents are known."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.core.records.metrics import parse_target
from polyrhythm.errors import CompositionError
from polyrhythm.tools.planner.measured import CurvePoint
from polyrhythm.tools.planner.proxy.crossing import AroundTarget, crossing
from polyrhythm.tools.planner.proxy.rates import best_factor, fit_rates
from polyrhythm.tools.planner.proxy.sample_law import fit_penalty, fit_samples

SIZES = (1000, 2000, 4000, 8000)
LARGE = 64_000


def noisy(values: dict[int, float], seed: int, deviation: float = 0.05) -> dict[int, list[float]]:
    """Three runs at each size, which differ by so much."""
    draw = np.random.default_rng(seed)
    return {size: [value * math.exp(deviation * draw.standard_normal()) for _ in range(3)] for size, value in values.items()}


@pytest.mark.parametrize("alpha", [0.4, 0.7, 1.0, 1.4])
@pytest.mark.parametrize("share", [0.1, 1.0, 10.0])
def test_samples_without_noise_are_carried_to_eight_times_the_largest_size(alpha: float, share: float) -> None:
    def needed(size: float) -> float:
        return 1000 + 1000 * share * (size / 1000) ** -alpha

    law = fit_samples({size: [needed(size)] * 2 for size in SIZES})
    assert law.at(LARGE) == pytest.approx(needed(LARGE), rel=0.1)


def test_a_law_without_a_least_number_is_found_too() -> None:
    law = fit_samples({size: [1e6 * size**-0.7] * 2 for size in SIZES})
    assert law.at(LARGE) == pytest.approx(1e6 * LARGE**-0.7, rel=0.1)


def test_samples_that_do_not_fall_with_the_size_stay_as_they_are() -> None:
    law = fit_samples({size: [500.0, 510.0] for size in SIZES})
    assert law.at(LARGE) == pytest.approx(505, rel=0.03)


def covered(bounds: Iterator[tuple[float, float, float]]) -> float:
    """The part of truths that lie between their bounds."""
    inside = [low <= truth <= high for low, high, truth in bounds]
    return sum(inside) / len(inside)


def test_nine_of_ten_intervals_of_samples_contain_the_truth() -> None:
    def bounds() -> Iterator[tuple[float, float, float]]:
        for seed in range(20):
            alpha = (0.5, 0.7, 1.0)[seed % 3]
            law = fit_samples(noisy({size: 800 + 2000 * (size / 1000) ** -alpha for size in SIZES}, seed))
            low, high = np.quantile(law.drawn_at(LARGE), (0.05, 0.95))
            yield low, high, 800 + 2000 * (LARGE / 1000) ** -alpha

    assert covered(bounds()) >= 0.8


def test_nine_of_ten_intervals_of_penalties_contain_the_truth() -> None:
    def bounds() -> Iterator[tuple[float, float, float]]:
        for seed in range(20):
            slope = (-0.1, 0.0, 0.1)[seed % 3]
            law = fit_penalty(noisy({size: 2.0 * (size / 1000) ** slope for size in SIZES}, seed), "synthetic")
            low, high = np.quantile(law.drawn_at(LARGE), (0.05, 0.95))
            yield low, high, 2.0 * (LARGE / 1000) ** slope

    assert covered(bounds()) >= 0.8


def test_intervals_are_not_wider_than_a_factor_of_two() -> None:
    law = fit_samples(noisy({size: 800 + 2000 * (size / 1000) ** -0.7 for size in SIZES}, 1))
    low, high = np.quantile(law.drawn_at(LARGE), (0.05, 0.95))
    assert high / low < 2


def test_few_sizes_are_refused() -> None:
    with pytest.raises(CompositionError, match="3 or more"):
        fit_samples({1000: [3.0], 2000: [2.0]})
    with pytest.raises(CompositionError, match="has no penalty"):
        fit_penalty({}, "few")


def test_a_penalty_at_one_size_is_taken_to_change_little() -> None:
    law = fit_penalty({1000: [2.0, 2.1]}, "one")
    assert law.at(64_000) == pytest.approx(2.05, rel=0.01)
    low, high = np.quantile(law.drawn_at(64_000), (0.05, 0.95))
    assert 1.3 < 2.05 / low < 2.2
    assert 1.3 < high / 2.05 < 2.2


@given(st.sampled_from([0.0, 0.25, 0.5]), st.sampled_from([1e-3, 0.3]))
def test_the_best_rate_of_each_size_is_found_from_a_coarse_grid(kappa: float, rate: float) -> None:
    def best(size: float) -> float:
        return rate * (size / 1000) ** -kappa

    def samples(size: int, tried: float) -> float:
        return 100 * math.exp(0.2 * math.log(tried / best(size)) ** 2)

    tried = {size: {each: samples(size, each) for each in (rate / 4, rate / 2, rate, 2 * rate, 4 * rate)} for size in (1000, 4000, 16000)}
    law = fit_rates(tried)
    assert law.at(4000) == pytest.approx(best(4000), rel=0.15)
    assert law.at(64_000) == pytest.approx(best(64_000), rel=0.35)  # where the usual exponent has a say


def test_rates_that_tell_nothing_have_the_usual_exponent() -> None:
    law = fit_rates({1000: {0.1: 50.0}, 2000: {0.1: 45.0}, 4000: {0.1: math.inf}})
    assert law.kappa == 0.25
    assert law.at(1414) == pytest.approx(0.1, rel=0.01)


def test_the_best_factor_lies_between_its_neighbours() -> None:
    assert 1.0 < best_factor({0.5: 200.0, 1.0: 100.0, 2.0: 105.0}) < 2.0
    assert best_factor({0.5: 90.0, 1.0: 100.0, 2.0: math.inf}) == 0.5
    assert best_factor({0.5: math.inf, 1.0: math.inf}) == 1.0


def curve(count: int) -> list[CurvePoint]:
    """A loss that falls with the logarithm of the samples."""
    return [CurvePoint(0.0, 0.0, samples, 5 - 0.5 * math.log(samples)) for samples in (1.5**k for k in range(1, count))]


def test_a_crossing_is_found_between_evaluations() -> None:
    target = parse_target("loss=2.2")
    assert crossing(curve(20), target) == pytest.approx(math.exp(5.6), rel=1e-6)
    assert crossing(curve(8), target) is None


def test_few_moments_are_evaluated_and_those_around_the_target_among_them() -> None:
    asked: list[int] = []

    def at(place: int) -> dict[str, float]:
        asked.append(place)
        return {"loss": 3.0 - place / 100}

    AroundTarget(parse_target("loss=2.5"))(100, at)
    assert {48, 49, 50, 51} <= set(asked)
    assert len(set(asked)) < 30
