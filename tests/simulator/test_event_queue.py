"""Order in virtual time."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from polyrhythm.core.simulator.event_parts import BEST, PORTABLE, EventParts
from polyrhythm.core.simulator.event_queue import EventQueue, Work


def action(first: Any, second: Any) -> None:
    raise AssertionError("nobody calls it here")


def timer(first: Any, second: Any) -> None:
    raise AssertionError("nobody calls it here")


def drain(queue: EventQueue, limit: float = inf) -> list[tuple[float, Any]]:
    """What comes due until `limit`, with its time."""
    found: list[tuple[float, Any]] = []
    while True:
        while queue.ready:
            found.append((queue.now, queue.ready.popleft()[1]))
        if queue.advance(limit) == limit:
            return found + [(queue.now, work[1]) for work in iter_ready(queue)]


def iter_ready(queue: EventQueue) -> list[Work]:
    return [queue.ready.popleft() for _ in range(len(queue.ready))]


@pytest.mark.parametrize("parts", [BEST, PORTABLE], ids=["here", "in Python"])
def test_work_comes_by_time_and_then_in_the_order_planned(parts: EventParts) -> None:
    queue = parts.queue(None)
    for name, time in (("a", 2.0), ("b", 1.0), ("c", 2.0), ("d", 0.0), ("e", 1.0)):
        queue.at(time, (action, name, None))
    assert drain(queue) == [(0.0, "d"), (1.0, "b"), (1.0, "e"), (2.0, "a"), (2.0, "c")]


@pytest.mark.parametrize("parts", [BEST, PORTABLE], ids=["here", "in Python"])
def test_time_stops_at_the_limit_and_infinity_never_comes(parts: EventParts) -> None:
    queue = parts.queue(None)
    queue.at(5.0, (action, "late", None))
    queue.at(inf, (action, "never", None))
    assert queue.advance(3.0) == 3.0
    assert queue.now == 3.0
    assert drain(queue) == [(5.0, "late")]
    assert queue.advance(inf) == inf
    assert queue.now == 5.0


@pytest.mark.parametrize("parts", [BEST, PORTABLE], ids=["here", "in Python"])
def test_stale_timers_move_no_time_and_are_thrown_out_when_they_are_many(parts: EventParts) -> None:
    queue = parts.queue(None)
    queue.timers(timer, lambda first, second: first < 5000)
    for number in range(5001):
        queue.at(10.0 + number, (timer, number, None))
    assert len(queue) < 1100
    assert drain(queue) == [(5010.0, 5000)]


@pytest.mark.parametrize("parts", [BEST, PORTABLE], ids=["here", "in Python"])
def test_a_seed_shuffles_what_is_simultaneous_and_nothing_else(parts: EventParts) -> None:
    def order(seed: int) -> list[tuple[float, Any]]:
        queue = parts.queue(seed)
        for number in range(20):
            queue.at(float(number // 10), (action, number, None))
        return drain(queue)

    assert order(1) == order(1) != order(2)
    assert [time for time, _ in order(1)] == [0.0] * 10 + [1.0] * 10
