"""Fits of power laws: what is put in comes out, noise and bends make intervals wider, and what is no law is not called one."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError
from polyrhythm.tools.scaling.power_law import fit_power_law

SIZES = (1e3, 4e3, 1.6e4, 6.4e4)


def noisy(alpha: float, deviation: float, seed: int, seeds: int = 3) -> dict[float, list[float]]:
    draw = random.Random(seed)
    return {x: [5 * x**-alpha * math.exp(draw.gauss(0, deviation)) for _ in range(seeds)] for x in SIZES}


@settings(max_examples=20)
@given(st.floats(0.02, 1.5), st.floats(0.1, 100))
def test_an_exact_law_is_found(alpha: float, coefficient: float) -> None:
    law = fit_power_law({x: [coefficient * x**-alpha] for x in SIZES})
    assert (law.alpha, law.coefficient, law.r_squared) == pytest.approx((alpha, coefficient, 1.0), rel=1e-6)
    assert (law.low, law.high) == pytest.approx((alpha, alpha), rel=1e-6)
    assert law.at(1e6) == pytest.approx(coefficient * 1e6**-alpha, rel=1e-5)
    assert law.holds


def test_a_floor_that_is_known_is_taken_away() -> None:
    law = fit_power_law({x: [2 + 3 * x**-0.3] for x in SIZES}, floor=2)
    assert law.alpha == pytest.approx(0.3)
    assert fit_power_law({x: [2 + 3 * x**-0.3] for x in SIZES}).alpha < 0.2


def test_the_interval_has_the_exponent_about_as_often_as_it_says() -> None:
    laws = [fit_power_law(noisy(0.1, 0.05, seed)) for seed in range(40)]
    assert sum(law.low <= 0.1 <= law.high for law in laws) >= 32


def test_exponents_are_told_apart_where_they_differ_by_more_than_the_noise() -> None:
    small, near, far = (fit_power_law(noisy(alpha, 0.03, seed)) for seed, alpha in enumerate((0.1, 0.105, 0.3)))
    assert small.told_apart(far)
    assert far.told_apart(small)
    assert not small.told_apart(near)


def test_a_bend_makes_the_interval_wider_as_noise_does() -> None:
    straight = fit_power_law({x: [x**-0.2] * 3 for x in SIZES})
    bent = fit_power_law({x: [x**-0.2 * (1.4 if x in SIZES[1:3] else 1)] * 3 for x in SIZES})
    assert bent.high - bent.low > 10 * (straight.high - straight.low) + 0.01


def test_what_does_not_fall_is_no_power_law() -> None:
    flat = fit_power_law(dict(zip(SIZES, ([1.0, 1.1], [1.05, 0.98], [1.1, 1.0], [0.99, 1.06]), strict=True)))
    assert not flat.holds


def test_predictions_are_less_certain_the_farther_they_are() -> None:
    law = fit_power_law(noisy(0.2, 0.05, 1))
    widths = [math.log(high / low) for low, high in map(law.interval_at, (1e4, 1e6, 1e8))]
    assert widths == sorted(widths)
    low, high = law.interval_at(1e4)
    assert low <= law.at(1e4) <= high


@pytest.mark.parametrize(
    ("measured", "words"),
    [({1: [1.0], 2: [0.5]}, "2 sizes"), ({1: [1.0], 2: [0.0], 3: [0.1]}, "not above"), ({0: [1.0], 2: [0.5], 3: [0.1]}, "not above")],
)
def test_what_has_no_law_is_refused(measured: dict[float, list[float]], words: str) -> None:
    with pytest.raises(CompositionError, match=words):
        fit_power_law(measured)
