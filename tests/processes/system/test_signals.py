from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from polyrhythm.core.processes.system.signals import DeferredSignals


class Alarm(Exception):
    """What a user's handler raises."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_handlers_run_at_the_end_in_the_order_in_which_the_signals_came() -> None:
    seen: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, frame: seen.append(number))
    mine = signal.getsignal(signal.SIGUSR1)
    notified: list[bool] = []
    with DeferredSignals(lambda: notified.append(True)) as signals:
        os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert (seen, len(notified), len(signals.noted)) == ([], 2, 2)
    assert seen == [signal.SIGUSR2, signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is mine


def test_what_a_handler_raises_comes_out_of_the_statement_and_not_into_it() -> None:
    def handler(number: int, frame: object) -> None:
        raise Alarm

    signal.signal(signal.SIGUSR1, handler)
    finished: list[bool] = []

    def work() -> None:
        with DeferredSignals(lambda: None):
            os.kill(os.getpid(), signal.SIGUSR1)
            finished.append(True)

    with pytest.raises(Alarm):
        work()
    assert finished
    assert signal.getsignal(signal.SIGUSR1) is handler


def test_signals_that_python_does_not_handle_are_left_alone() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    with DeferredSignals(lambda: None) as signals:
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGUSR1)
    assert not signals.noted


def test_all_handlers_are_called_though_the_first_raises() -> None:
    def alarm(number: int, frame: object) -> None:
        raise Alarm

    seen: list[int] = []
    signal.signal(signal.SIGUSR1, alarm)
    signal.signal(signal.SIGUSR2, lambda number, frame: seen.append(number))

    def work() -> None:
        with DeferredSignals(lambda: None):
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR2)

    with pytest.raises(Alarm):
        work()
    assert seen == [signal.SIGUSR2]
