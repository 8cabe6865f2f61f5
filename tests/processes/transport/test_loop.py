import math
import socket
import threading
from collections.abc import Iterator

import pytest

from polyrhythm.core.processes.transport.loop import READ, EventLoop


@pytest.fixture
def loop() -> EventLoop:
    return EventLoop()


@pytest.mark.parametrize("seconds", [1e12, math.inf])
def test_a_timer_that_is_far_off_does_not_keep_the_loop_from_waiting(loop: EventLoop, seconds: float) -> None:
    loop.after(seconds, lambda: None)
    threading.Timer(0.01, lambda: loop.call(loop.stop)).start()
    loop.run()
    loop.close()


def test_timers_that_were_cancelled_leave_nothing_behind(loop: EventLoop) -> None:
    for _ in range(10_000):
        loop.after(1e6, lambda: None).cancel()
    assert len(loop._timers) < 3000
    loop.close()


def test_a_stop_is_not_forgotten_when_something_else_fails_in_the_same_round(loop: EventLoop) -> None:
    def fail() -> None:
        raise ArithmeticError("meanwhile")

    loop.call(loop.stop)
    loop.call(fail)
    with pytest.raises(ArithmeticError, match="meanwhile"):
        loop.run()
    loop.run()
    loop.close()


@pytest.fixture
def served(loop: EventLoop) -> Iterator[EventLoop]:
    """A loop with a thread of its own."""
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield loop
    loop.call(loop.stop)
    thread.join(10)
    assert not thread.is_alive()
    loop.close()


def test_a_thread_that_drives_runs_the_callbacks_itself(served: EventLoop) -> None:
    seen: list[int] = []
    for _ in range(100):
        ended: list[bool] = []

        def first(ended: list[bool] = ended) -> None:
            served.after(1e-5, lambda: (seen.append(threading.get_ident()), ended.append(True)))

        assert served.drive([first], lambda ended=ended: bool(ended))
    assert set(seen) == {threading.get_ident()}
    assert len(seen) == 100


def test_after_a_drive_the_loops_own_thread_goes_on_with_timers_sockets_and_calls(served: EventLoop) -> None:
    seen: list[str] = []
    done = threading.Event()
    here, there = socket.socketpair()

    def note(what: str) -> None:
        seen.append(what)
        if len(seen) == 3:
            done.set()

    def read(_: int) -> None:
        if here.recv(1):
            note("socket")

    def first() -> None:
        served.watch(here, READ, read)
        served.after(0.02, lambda: note("timer"))

    served.drive([first], lambda: True)
    there.send(b"x")
    served.call(lambda: note("call"))
    assert done.wait(10)
    assert set(seen) == {"socket", "timer", "call"}
    served.drive([lambda: served.forget(here)], lambda: True)
    here.close()
    there.close()


def test_two_threads_cannot_drive_at_once_and_the_second_gets_an_error(served: EventLoop) -> None:
    driving, enough = threading.Event(), threading.Event()
    first = threading.Thread(target=lambda: served.drive([driving.set], enough.is_set))
    first.start()
    driving.wait(10)
    assert not served.drive([lambda: pytest.fail("it began")], lambda: True)
    enough.set()
    served.wake()
    first.join(10)
    assert not first.is_alive()


def test_what_was_called_before_comes_before_what_a_drive_begins_with(loop: EventLoop) -> None:
    order: list[str] = []
    loop.call(lambda: order.append("call"))
    loop.drive([lambda: order.append("drive")], lambda: True)
    loop.close()
    assert order == ["call", "drive"]


def test_what_a_callback_raises_comes_out_of_drive_and_the_loop_lives_on(served: EventLoop) -> None:
    def fail() -> None:
        raise ArithmeticError("within")

    with pytest.raises(ArithmeticError, match="within"):
        served.drive([fail], lambda: False)
    called = threading.Event()
    served.call(called.set)
    assert called.wait(10)
