"""Random schedules of faults, and the smallest part of one that still fails: delta debugging (Zeller and Hildebrandt, 2002).

A test calls `refute` with what it runs; the message of a failure is a schedule to be copied into a test of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import (
    Crash,
    Disconnect,
    Drop,
    Exit,
    Fault,
    HoldGIL,
    Join,
    KillWhileWriting,
    Leave,
    Segfault,
    SlowDisk,
    Stall,
)

Schedule = tuple[Fault, ...]
Fails = Callable[[Schedule], bool]

_MOST = 8
_NUMBERS = ("at", "step", "duration", "notice", "seconds", "probability", "status", "checkpoint")


def random_schedule(seed: int, actors: Sequence[str], horizon: float, kinds: Sequence[type[Fault]], steps: int | None = None) -> Schedule:
    """From 1 to 8 faults of the `kinds` among `actors`, within `horizon` seconds; with `steps`, half of them after one of so many steps."""
    draw = random.Random(f"faults {seed}")
    return tuple(_fault(draw, actors, horizon, draw.choice(kinds), steps) for _ in range(draw.randint(1, _MOST)))


def _fault(draw: random.Random, actors: Sequence[str], horizon: float, kind: type[Fault], steps: int | None) -> Fault:
    by_step = steps is not None and draw.random() < 0.5
    when: dict[str, Any] = {"step": draw.randint(1, steps or 1)} if by_step else {"at": round(draw.uniform(0, horizon), 6)}
    actor, lasting = draw.choice(actors), round(draw.uniform(0.01, 0.3) * horizon, 6)
    worker = draw.choice([name for name in actors if name.startswith("worker/")])
    made: dict[type[Fault], Callable[[], Fault]] = {
        Crash: lambda: Crash(worker if by_step else actor, **when),
        Segfault: lambda: Segfault(worker if by_step else actor, **when),
        Exit: lambda: Exit(worker if by_step else actor, draw.randint(0, 255), **when),
        Stall: lambda: Stall(worker if by_step else actor, duration=lasting, **when),
        HoldGIL: lambda: HoldGIL(worker if by_step else actor, duration=lasting, **when),
        SlowDisk: lambda: SlowDisk(worker, lasting, **when),
        KillWhileWriting: lambda: KillWhileWriting(worker, draw.randint(1, 3)),
        Leave: lambda: Leave(worker, notice=lasting, **when),
        Join: lambda: Join(**when),
        Disconnect: lambda: Disconnect(*draw.sample(list(actors), 2), duration=lasting, **when),
        Drop: lambda: Drop(round(draw.random(), 6), duration=lasting, **when),
    }
    return made[kind]()


def shrink(schedule: Sequence[Fault], fails: Fails) -> Schedule:
    """The smallest schedule that this finds and that still fails: without any one of its faults it passes, and its numbers are simple.

    It is the same each time if `fails` is. Raises ValueError for a schedule that does not fail.
    """
    known: dict[Schedule, bool] = {}

    def still(tried: Schedule) -> bool:
        if tried not in known:
            known[tried] = fails(tried)
        return known[tried]

    smallest = tuple(schedule)
    if not still(smallest):
        raise ValueError("The schedule does not fail, so there is nothing to shrink.")
    while True:
        fewer = _fewer(smallest, still)
        simpler = _simpler(fewer, still)
        if simpler == smallest:
            return smallest
        smallest = simpler


def refute(fails: Fails, seeds: Iterable[int], make: Callable[[int], Schedule]) -> None:
    """Raise AssertionError with the smallest failing schedule of the first seed whose schedule fails."""
    for seed in seeds:
        if fails(schedule := make(seed)):
            smallest = shrink(schedule, fails)
            raise AssertionError(f"seed {seed} fails, with {len(smallest)} of its {len(schedule)} faults: {smallest}")


def _fewer(schedule: Schedule, fails: Fails) -> Schedule:
    """Leave out halves, then quarters …, then single faults, until nothing can be left out."""
    size = max(len(schedule) // 2, 1)
    while schedule:
        for start in range(0, len(schedule), size):
            rest = schedule[:start] + schedule[start + size :]
            if fails(rest):
                schedule = rest
                break
        else:
            if size == 1:
                break
            size //= 2
        size = max(min(size, len(schedule) // 2), 1)
    return schedule


def _simpler(schedule: Schedule, fails: Fails) -> Schedule:
    """Replace one number after the other by a simpler one, while the schedule still fails."""
    while True:
        simpler = next((tried for place in range(len(schedule)) for tried in _candidates(schedule, place) if fails(tried)), None)
        if simpler is None:
            return schedule
        schedule = simpler


def _candidates(schedule: Schedule, place: int) -> Iterator[Schedule]:
    """The schedule with one number of the fault at `place` simpler: whole, shorter to write, or smaller."""
    fault: Any = schedule[place]
    for name in (field.name for field in fields(fault) if field.name in _NUMBERS):
        value = getattr(fault, name)
        if value is None or value == float("inf"):
            continue
        options = [0, 1, *(round(value, digits) for digits in range(4)), value / 2, value - 1]
        for option in dict.fromkeys(type(value)(option) for option in options):
            if _order(option) < _order(value) and option >= 0:
                with suppress(CompositionError):  # such as a duration of nothing
                    yield (*schedule[:place], replace(fault, **{name: option}), *schedule[place + 1 :])


def _order(number: float) -> tuple[bool, int, float]:
    return number != int(number), len(repr(number)), number
