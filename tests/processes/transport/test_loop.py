import math
import threading

import pytest

from polyrhythm.processes.transport.loop import Loop


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.mark.parametrize("seconds", [1e12, math.inf])
def test_a_timer_that_is_far_off_does_not_keep_the_loop_from_waiting(loop: Loop, seconds: float) -> None:
    loop.after(seconds, lambda: None)
    threading.Timer(0.01, lambda: loop.call(loop.stop)).start()
    loop.run()
    loop.close()


def test_timers_that_were_cancelled_leave_nothing_behind(loop: Loop) -> None:
    for _ in range(10_000):
        loop.after(1e6, lambda: None).cancel()
    assert len(loop._timers) < 3000
    loop.close()


def test_a_stop_is_not_forgotten_when_something_else_fails_in_the_same_round(loop: Loop) -> None:
    def fail() -> None:
        raise ArithmeticError("meanwhile")

    loop.call(loop.stop)
    loop.call(fail)
    with pytest.raises(ArithmeticError, match="meanwhile"):
        loop.run()
    loop.run()
    loop.close()
