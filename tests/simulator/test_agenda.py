"""Order in virtual time."""

from __future__ import annotations

from math import inf
from typing import Any

from polyrhythm.simulator.agenda import Agenda, Work


def action(first: Any, second: Any) -> None:
    raise AssertionError("nobody calls it here")


def timer(first: Any, second: Any) -> None:
    raise AssertionError("nobody calls it here")


def drain(agenda: Agenda, limit: float = inf) -> list[tuple[float, Any]]:
    """What comes due until `limit`, with its time."""
    found: list[tuple[float, Any]] = []
    while True:
        while agenda.ready:
            found.append((agenda.now, agenda.ready.popleft()[1]))
        if agenda.advance(limit) == limit:
            return found + [(agenda.now, work[1]) for work in iter_ready(agenda)]


def iter_ready(agenda: Agenda) -> list[Work]:
    return [agenda.ready.popleft() for _ in range(len(agenda.ready))]


def test_work_comes_by_time_and_then_in_the_order_planned() -> None:
    agenda = Agenda(None)
    for name, time in (("a", 2.0), ("b", 1.0), ("c", 2.0), ("d", 0.0), ("e", 1.0)):
        agenda.at(time, (action, name, None))
    assert drain(agenda) == [(0.0, "d"), (1.0, "b"), (1.0, "e"), (2.0, "a"), (2.0, "c")]


def test_time_stops_at_the_limit_and_infinity_never_comes() -> None:
    agenda = Agenda(None)
    agenda.at(5.0, (action, "late", None))
    agenda.at(inf, (action, "never", None))
    assert agenda.advance(3.0) == 3.0
    assert agenda.now == 3.0
    assert drain(agenda) == [(5.0, "late")]
    assert agenda.advance(inf) == inf
    assert agenda.now == 5.0


def test_stale_timers_move_no_time_and_are_thrown_out_when_they_are_many() -> None:
    agenda = Agenda(None)
    agenda.timers(timer, lambda first, second: first < 5000)
    for number in range(5001):
        agenda.at(10.0 + number, (timer, number, None))
    assert len(agenda._heap) < 1100
    assert drain(agenda) == [(5010.0, 5000)]


def test_a_seed_shuffles_what_is_simultaneous_and_nothing_else() -> None:
    def order(seed: int) -> list[tuple[float, Any]]:
        agenda = Agenda(seed)
        for number in range(20):
            agenda.at(float(number // 10), (action, number, None))
        return drain(agenda)

    assert order(1) == order(1) != order(2)
    assert [time for time, _ in order(1)] == [0.0] * 10 + [1.0] * 10
