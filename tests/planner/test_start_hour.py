"""Money at prices that change with the hour of the day, and the hour at which to begin."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.machine_terms import MachineTerms
from polyrhythm.hardware.price_hours import PriceHours
from polyrhythm.tools.planner.machine_costs import priced
from polyrhythm.tools.planner.objective import Objective, Prices, Spent
from polyrhythm.tools.planner.space import Space
from polyrhythm.tools.planner.start_hour import cheapest_start

from .jobs import SLOW, findings, planner

HOUR = 3600.0
NIGHT = PriceHours("22 h", "8 h", 0.25)
RENTED = Fleet((SLOW, SLOW), terms=(MachineTerms(worker_hour=1.0, prices=(NIGHT,)), MachineTerms(worker_hour=0.5)))


def test_each_worker_costs_what_its_hours_do() -> None:
    prices = priced(Objective("money", Prices(start=20 * HOUR), priced=True), RENTED, 2, {}).prices
    assert Spent(4 * HOUR, 0.0, 2).money(prices) == pytest.approx(2 * 1.0 + 2 * 0.25 + 4 * 0.5)
    assert Spent(0.0, 0.0, 2).money(prices) == 0.0
    assert Spent(math.inf, 0.0, 2).money(prices) == math.inf


def test_money_never_falls_while_a_run_goes_on() -> None:
    prices = priced(Objective("money", Prices(start=20 * HOUR), priced=True), RENTED, 2, {}).prices
    spent = [Spent(minute * 60.0, 0.0, 2).money(prices) for minute in range(3000)]
    assert spent == sorted(spent)


def test_the_cheapest_start_is_within_the_cheap_hours_and_the_present_one_where_all_cost_the_same() -> None:
    prices = priced(Objective("money", Prices(start=12 * HOUR), priced=True), RENTED, 2, {}).prices
    hour, money = cheapest_start(prices, Spent(8 * HOUR, 0.0, 2))
    assert (hour, money) == (22 * HOUR, pytest.approx(8 * 0.75))
    assert cheapest_start(replace(prices, changing=()), Spent(8 * HOUR, 0.0, 2))[0] == 12 * HOUR


@pytest.mark.long
def test_a_plan_by_money_says_when_to_begin() -> None:
    found = findings(systems=("allreduce",), workers=(2,), objective=Objective("money", Prices(start=12 * HOUR), priced=True))
    found.scenario = found.scenario.elsewhere(devices=RENTED)
    found.space = Space.of(found.scenario, ("allreduce",), (2,))
    plan = planner(found).plan()
    assert plan.best is not None
    assert plan.best.money is not None
    assert any("Begun at 0 h" in remark and "start at 12 h" in remark for remark in plan.remarks), plan.remarks
    assert "Begun at 0 h" in str(pr.plan_text(plan))


@pytest.mark.parametrize("hours", [-1.0, 24.0, 25.0])
def test_a_start_that_is_no_time_of_the_day_is_refused(hours: float) -> None:
    with pytest.raises(CompositionError, match="no time of the day"):
        Prices(start=hours * HOUR)
