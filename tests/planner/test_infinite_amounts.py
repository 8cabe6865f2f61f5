"""Amounts without an end, and prices of nothing: no cost of a plan is NaN, and what never ends is never the cheapest."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import Trace
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.machines import Device
from polyrhythm.hardware.meters import LineUse
from polyrhythm.hardware.price_hours import PriceHours
from polyrhythm.tools.planner.data_site import FetchedBefore, FetchedMeanwhile
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.interruptions import Interruptions, Standstills
from polyrhythm.tools.planner.machine_costs import interruptions_of, priced, too_much
from polyrhythm.tools.planner.objective import OBJECTIVES, Objective, Prices, Spent
from polyrhythm.tools.planner.pace import StepPace
from polyrhythm.tools.planner.products import product

AMOUNTS = st.one_of(st.just(0.0), st.just(math.inf), st.floats(0, 1e12))
NUMBERS = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
HOURS = st.sampled_from([(), (PriceHours("22 h", "9 h", 0.0),), (PriceHours("22 h", "9 h", 0.5), PriceHours("8 h", "2 h", 2.0))])
TERMS = st.builds(
    MachineTerms,
    watts=st.none() | NUMBERS,
    worker_hour=st.none() | NUMBERS,
    interruptions=st.none() | NUMBERS,
    notice=NUMBERS,
    prices=HOURS,
)
PRICES = st.builds(Prices, worker_hour=NUMBERS, gigabyte=NUMBERS, watts=st.none() | NUMBERS)
LINES = st.dictionaries(
    st.just("line"), st.builds(LineUse, st.floats(0, 2), NUMBERS, st.one_of(st.just(math.inf), st.floats(1, 1e12))), max_size=1
)


@given(st.lists(TERMS, min_size=1, max_size=3), PRICES, LINES, st.tuples(AMOUNTS, AMOUNTS), st.tuples(AMOUNTS, AMOUNTS), st.integers(1, 4))
def test_costs_never_fall_and_are_never_nan(
    terms: list[MachineTerms],
    prices: Prices,
    lines: dict[str, LineUse],
    one: tuple[float, float],
    other: tuple[float, float],
    workers: int,
) -> None:
    fleet = Fleet(tuple(Device(f"m{k}", 1e9) for k in range(len(terms))), terms=tuple(terms))
    less, more = Spent(min(one[0], other[0]), min(one[1], other[1]), workers), Spent(max(one[0], other[0]), max(one[1], other[1]), workers)
    for name in OBJECTIVES:
        objective = priced(Objective(name, prices, priced=True), fleet, workers, lines)
        low, high = objective.cost(less), objective.cost(more)
        assert 0 <= low * (1 - 1e-9) <= high + 1e-6
        assert all(0 <= each <= math.inf for each in (more.money(objective.prices), more.energy(objective.prices)))
        assert more.seconds < math.inf or high == math.inf
    assert "nan" not in too_much(lines, more.nbytes)


@given(NUMBERS, AMOUNTS, st.integers(1, 8), AMOUNTS, AMOUNTS, AMOUNTS)
def test_interruptions_make_no_time_shorter(
    per_hour: float, whole: float, workers: int, lost: float, newcomer: float, redone: float
) -> None:
    crew = Standstills(lost, newcomer, redone)
    given = Interruptions(per_hour)
    assert given.seconds(whole, workers, crew) >= whole
    assert (given.restarted(whole, workers) or 0.0) >= whole * (1 - 1e-9)


@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
def test_a_trace_makes_no_time_shorter(whole: float, lost: float, newcomer: float, redone: float) -> None:
    given = Interruptions(trace=Trace("spot-calm"))
    assert given.seconds(whole, 4, Standstills(lost, newcomer, redone)) >= whole * (1 - 1e-9)


@given(st.lists(TERMS, min_size=1, max_size=3), st.integers(1, 4))
def test_interruptions_of_machines_are_a_rate(terms: list[MachineTerms], workers: int) -> None:
    fleet = Fleet(tuple(Device(f"m{k}", 1e9) for k in range(len(terms))), terms=tuple(terms))
    found = interruptions_of(fleet, workers, None)
    assert found is None or 0 <= found.per_hour < math.inf


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_times_bounds_and_paces_are_never_nan(one: float, two: float, three: float) -> None:
    bounds = Interval(one, two, three).times(one)
    spent = StepPace((0.0, 0.0, 0.0), one, two).spent(three, 8.0, 2)
    late = [kind("lab", 1e9).delayed(one, two, three) for kind in (FetchedBefore, FetchedMeanwhile)]
    assert all(each >= 0 for each in (bounds.low, bounds.middle, bounds.high, spent.seconds, spent.nbytes, *late))


@given(st.lists(AMOUNTS, max_size=4))
def test_a_product_with_nothing_is_nothing(factors: list[float]) -> None:
    assert product(*factors, 0.0) == 0.0
    assert product(*factors) >= 0


@pytest.mark.parametrize("name", ["worker_hour", "gigabyte", "watts"])
def test_prices_without_an_end_are_refused(name: str) -> None:
    with pytest.raises(CompositionError, match="numbers of 0 or more"):
        Prices(**{name: math.inf})
