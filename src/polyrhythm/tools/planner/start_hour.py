"""The hour of the day at which training is cheapest, where prices change with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyrhythm.hardware.price_hours import DAY
from polyrhythm.tools.planner.answer import Choice
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.objective import Prices, Spent

_HOUR = 3600.0
_LESS = 0.99
"""What saves less than one part in a hundred is not said."""


def cheapest_start(prices: Prices, spent: Spent) -> tuple[float, float]:
    """The whole hour of the day, in seconds, from which what was `spent` costs least, the present one first; and what it costs then."""
    hours = [prices.start, *(hour * _HOUR for hour in range(round(DAY / _HOUR)))]
    costs = [spent.money(replace(prices, start=hour)) for hour in hours]
    return hours[costs.index(min(costs))], min(costs)


def start_remarks(found: Findings, choices: Sequence[Choice]) -> list[str]:
    """A sentence on when to begin with the first of `choices`; none where that makes no difference."""
    first = next(iter(choices), None)
    if first is None or not (prices := found.objective_of(first.candidate).prices).changing:
        return []
    spent = Spent(first.seconds.middle, first.nbytes, first.workers)
    hour, money = cheapest_start(prices, spent)
    now = spent.money(prices)
    if money >= _LESS * now:
        return []
    return [
        f"Begun at {hour / _HOUR:g} h, {first.name} costs {money:.4g} to the target and not the {now:.4g} of a start at "
        f"{prices.start / _HOUR:g} h, taken to be as fast then."
    ]
