"""One at a time, in the order of coming, none before it is due."""

from __future__ import annotations

from polyrhythm.core.kernel.serial_queue import SerialQueue


def test_an_item_is_admitted_when_it_is_due_and_the_one_before_has_left() -> None:
    line: SerialQueue[str] = SerialQueue()
    line.join("a")
    line.join("b")
    assert line.admit() is None
    line.call("b")
    assert line.admit() is None  # a stands before it
    line.call("a")
    assert line.admit() == "a"
    assert line.admit() is None
    line.leave()
    assert line.admit() == "b"


def test_it_is_idle_when_nothing_waits_or_runs_and_no_error_is_pending() -> None:
    line: SerialQueue[str] = SerialQueue()
    assert line.idle
    line.join("a")
    assert not line.idle
    line.call("a")
    line.admit()
    assert not line.idle
    first = KeyError("first")
    line.leave(first)
    assert not line.idle
    assert line.take_error() is first
    assert line.idle


def test_the_first_error_is_kept_until_it_is_taken() -> None:
    line: SerialQueue[str] = SerialQueue()
    first, second = KeyError("first"), KeyError("second")
    line.leave(first)
    line.leave(second)
    line.leave()
    assert line.take_error() is first
    assert line.take_error() is None


def test_those_who_wait_can_be_sent_away() -> None:
    line: SerialQueue[str] = SerialQueue()
    for item in "abc":
        line.join(item)
        line.call(item)
    assert line.admit() == "a"
    assert line.clear() == ["b", "c"]
    line.leave()
    assert line.admit() is None
