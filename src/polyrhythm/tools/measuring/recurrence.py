"""When a strategy's messages come again, in steps of a worker: how many steps show what a step takes.

Timings of a few steps ask it, of the strategy's pieces: intervals between exchanges, warm-ups, turns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, islice
from math import lcm

import numpy as np

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import Fixed
from polyrhythm.core.protocols.recurrence import Recurrence
from polyrhythm.core.strategy.exchange import Exchange
from polyrhythm.core.strategy.strategy import Strategy

_STEPS = 2048
"""So many steps are looked at, and of longer intervals so many."""
_INTERVALS = 4


def recurrence_of(strategy: Strategy, workers: int) -> Recurrence:
    """The steps until a worker's messages are as usual, and those after which they come again.

    What controllers decide by measurements, and what is drawn, is not foreseen.
    """
    found = Recurrence()
    for _, exchange in strategy.exchanges:
        for level in exchange.levels:
            found = found.with_(_of_level(level, workers)).with_(_decided(level))
    return found


def exchange_interval(strategy: Strategy, workers: int) -> int:
    """The steps from one exchange to the next, once it exchanges as usual."""
    levels = [level for _, exchange in strategy.exchanges for level in exchange.levels]
    return lcm(*(_course(level, _exchanges(level, workers)).period for level in levels))


def _of_level(level: Exchange, workers: int) -> Recurrence:
    exchanges = _exchanges(level, workers)
    course = _course(level, exchanges)
    sent = level.codec.traits.recurs.with_(level.topology.traits.recurs)
    made = list(accumulate(exchanges))
    begins = max(course.beginning, level.consistency.traits.head_start.steps, _step_of(sent.beginning, made))
    often = made[course.beginning + course.period - 1] - (made[course.beginning - 1] if course.beginning else 0)
    return Recurrence(begins, course.period * (lcm(often, sent.period) // often if often else 1))


def _decided(level: Exchange) -> Recurrence:
    """A controller decides every so many steps, for the first time after as many."""
    every = 0 if level.controller == Fixed() else level.controller.traits.every
    return Recurrence(every, max(1, every))


def _exchanges(level: Exchange, workers: int) -> list[bool]:
    """For each of the first steps, whether an exchange follows it."""
    first = list(islice(level.clocks(workers), _INTERVALS))
    before = ExchangeContext(Group.of_workers(workers, 0), rng.stream(0, "exchange"))
    due = level.consistency.conditions.exchanges
    return [due(before.changed(clock=clock)) for clock in range(1, max(_STEPS, first[-1] if first else 0) + 1)]


def _course(level: Exchange, exchanges: list[bool]) -> Recurrence:
    """The shortest beginning and period that the steps have by what is done after each, where workers are equally fast."""
    when = level.consistency.conditions
    known, each = 0, []
    for step, due in enumerate(exchanges, 1):
        reads = due and when.must_read(step, known)
        known = step if reads else known
        each.append(4 * due + 2 * (due and when.pushes(step)) + reads)
    done = np.array(each)
    best = Recurrence(len(done) - 1)
    for period in range(1, len(done) // 2):
        if period >= best.beginning + best.period:
            break
        differ = np.flatnonzero(done[period:] != done[:-period])
        beginning = int(differ[-1]) + 1 if len(differ) else 0
        if beginning + 2 * period <= len(done) and beginning + period < best.beginning + best.period:
            best = Recurrence(beginning, period)
    return best


def _step_of(number: int, made: Sequence[int]) -> int:
    """The step after which the exchange of this number follows; further ones come as often as those that are known."""
    if number == 0 or not made[-1]:
        return 0
    return bisect_left(made, number) + 1 if number <= made[-1] else -(-number * len(made) // made[-1])
