"""Handlers of signals that a library replaces in a call, such as `ray.init`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from polyrhythm.core.kernel.stopping import handlers_kept, stoppable
from polyrhythm.errors import CompositionError, Stopped
from polyrhythm.launchers import ray_connection


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def leave(number: int, frame: FrameType | None) -> None:
    sys.exit(number)


def test_a_program_that_has_a_handler_has_it_again() -> None:
    with stoppable():
        with handlers_kept():
            signal.signal(signal.SIGTERM, leave)
        with pytest.raises(Stopped) as caught:
            os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.signal == "SIGTERM"


def test_a_program_without_a_handler_keeps_that_of_the_library() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with handlers_kept():
        signal.signal(signal.SIGTERM, leave)
    assert signal.getsignal(signal.SIGTERM) is leave


def interrupted() -> None:
    """What `ray.init` does, with a signal in the midst of it."""
    with handlers_kept():
        signal.signal(signal.SIGTERM, leave)
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_that_the_library_turns_into_an_exit_is_the_signal() -> None:
    with stoppable(), pytest.raises(Stopped):
        interrupted()


@pytest.mark.parametrize("code", [0, 1, None, "why"])
def test_other_exits_pass(code: Any) -> None:
    with stoppable(), pytest.raises(SystemExit) as caught, handlers_kept():
        sys.exit(code)
    assert caught.value.code == code


class FakeRay:
    """What is used of Ray: `init` takes SIGTERM for itself."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.given: dict[str, Any] = {}
        self._problem = problem

    def is_initialized(self) -> bool:
        return bool(self.given)

    def init(self, **given: Any) -> None:
        signal.signal(signal.SIGTERM, leave)
        if self._problem is not None:
            raise self._problem
        self.given = given


def test_a_connection_with_ray_leaves_sigterm_to_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert not ray_connection.is_connected()
    before = dict(os.environ)
    with stoppable():
        ray_connection.connect("serve", "10.0.0.1:6379", resources={"machine:a": 1.0})
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
    assert ray_connection.is_connected()
    assert ray.given == {"address": "10.0.0.1:6379", "log_to_driver": False, "resources": {"machine:a": 1.0}}
    assert dict(os.environ) == before


def test_a_cluster_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", FakeRay(ConnectionError("no route")))
    with pytest.raises(CompositionError, match=r"Ray's cluster '10.0.0.1:6379' cannot be reached: no route"):
        ray_connection.connect("ray", "10.0.0.1:6379")
