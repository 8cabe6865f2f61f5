"""The queue, what resumes tasks, and the post in C do what those in Python do, in the same order."""

from __future__ import annotations

import gc
import random
from functools import partial
from math import inf, nan
from typing import Any

import pytest
import torch
from toy import Toy

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.core.kernel import message as reference
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.simulator import simulator
from polyrhythm.core.simulator._events import Post, TaskRunner, bind_classes, wire_bytes
from polyrhythm.core.simulator.actors import VirtualTask
from polyrhythm.core.simulator.event_parts import BEST, NATIVE, PORTABLE, EventParts
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware import Crash, Drop


def test_this_installation_has_the_parts_in_c() -> None:
    assert NATIVE is not None
    assert BEST is NATIVE


def stale(first: int, second: int) -> bool:
    return first % 3 > 0


def test_the_collector_of_cycles_sees_each_work_once_while_stale_timers_are_thrown_out() -> None:
    queue, twice = BEST.queue(None), []

    def looked_at(first: int, second: int) -> bool:
        works = [id(each) for each in gc.get_referents(queue) if type(each) is tuple]
        twice.append(len(works) - len(set(works)))
        return stale(first, second)

    timer = twice.append
    queue.timers(timer, looked_at)
    works = [(timer, number, 0) for number in range(1024)]
    for number, work in enumerate(works):
        queue.at(1.0 + number, work)
    assert len(queue) == 342
    assert set(twice) == {0}


class Driver:
    """Schedules work at random, which schedules more, and notes what comes when."""

    def __init__(self, parts: EventParts, seed: int, shuffled: bool) -> None:
        self.draws = random.Random(seed)
        self.queue = parts.queue(seed if shuffled else None)
        self.timer = self.work
        self.queue.timers(self.timer, stale)
        self.found: list[Any] = []
        self.running = 1
        self.left = 3000

    def work(self, first: int, second: int) -> None:
        self.found.append((self.queue.now, first, second))
        for _ in range(self.draws.choice((0, 1, 1, 1, 2))):
            self.plan()

    def plan(self) -> None:
        if self.left:
            self.left -= 1
            action = self.timer if self.draws.random() < 0.5 else self.work
            self.queue.at(self.queue.now + self.draws.choice((-1, 0, 0.5, 0.5, 1, 1, 3, inf, self.draws.random())), (action, self.left, 0))

    def played(self) -> list[Any]:
        for _ in range(2000):
            self.plan()
        while True:
            if self.draws.random() < 0.1:
                self.running = 0
                self.queue.drain(self)
                self.found.append(("stopped", len(self.queue.ready), len(self.queue)))
                self.running = 1
            self.queue.drain(self)
            limit = inf if self.draws.random() < 0.5 else self.queue.now + self.draws.random()
            self.found.append(self.queue.advance(limit))
            if not len(self.queue) and not len(self.queue.ready):
                return self.found


@pytest.mark.parametrize("shuffled", [False, True])
def test_work_at_random_times_comes_in_the_same_order(shuffled: bool) -> None:
    assert NATIVE is not None
    for seed in range(10):
        assert Driver(NATIVE, seed, shuffled).played() == Driver(PORTABLE, seed, shuffled).played()


def records(monkeypatch: pytest.MonkeyPatch, system: str, workers: int = 3, **settings: Any) -> list[Any]:
    """The events and the summary of a run, or its error, by the parts in C and by those in Python."""
    found = []
    for parts in (BEST, PORTABLE):
        monkeypatch.setattr(simulator, "BEST", parts)
        tried = attempt(Toy(epochs=1, batch_size=4), workers=workers, strategy=systems.resolve(system), on=pr.Simulator(**settings), seed=0)
        found.append((tried.outcome.events, tried.outcome.summary, str(tried.error)))
    return found


@pytest.mark.parametrize("system", ["allreduce", "ssp", "gossipgrad", "adpsgd", "dlion", "gaia", "moshpit"])
@pytest.mark.parametrize("settings", [{"record_sends": True}, {"network": "wan-11"}, {"shuffle_ties": 4}], ids=str)
def test_the_record_of_a_run_is_the_same(system: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    native, portable = records(monkeypatch, system, **settings)
    assert native == portable


@pytest.mark.parametrize("system", ["gossipgrad", "ssp", "allreduce"])
def test_a_run_with_faults_is_the_same(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for fault in (Crash("worker/1", at=0.01), Drop(0.1)):
        native, portable = records(monkeypatch, system, faults=(fault,))
        assert native == portable


def test_nothing_of_earlier_runs_is_left() -> None:
    def left() -> int:
        pr.run(Toy(epochs=1, batch_size=4), workers=3, strategy="gossipgrad", on=pr.Simulator())
        gc.collect()
        return sum(type(each) in (VirtualTask, TaskRunner, Post) for each in gc.get_objects())

    assert left() == left()


def test_messages_are_as_long_in_c_as_in_python() -> None:
    packet = (torch.zeros(3, 4), torch.zeros((), dtype=torch.int64), torch.zeros(2, 0), torch.zeros(1).expand(5, 7).to(torch.bfloat16))
    for message in (Message(""), Message("tōpic", (1.0, 2.0), "settings «é»", packet), Message("0", tensors=[*packet])):  # type: ignore[arg-type]
        assert wire_bytes(message) == reference.wire_bytes(message)


def test_wrong_uses_are_refused() -> None:
    assert NATIVE is not None
    queue: Any = NATIVE.queue(None)
    runner: Any = NATIVE.runner(queue, {}, lambda *over: None, lambda task, serial: None)
    for call in (
        partial(queue.at, 1.0),
        partial(queue.at, 1.0, None),
        partial(queue.ready.append, (1, 2)),
        partial(queue.timers, None),
        partial(runner.wake, 1, None),
        partial(runner.receive, 1, 2),
        partial(runner.sleep, None, None),
        partial(runner.deliver, None, None),
        partial(runner.compute, 1, 2),
        partial(runner.charge, None, 1.0, (print, None, None)),
        partial(runner.charge, None, 1.0, None),
        partial(runner.worked, (None, 0.0), (print, None, None)),
        partial(runner.worked, None, (print, None, None)),
        partial(wire_bytes, "message"),
        partial(wire_bytes, Message("topic", tensors=(1,))),  # type: ignore[arg-type]
        partial(bind_classes, (int,)),
        partial(bind_classes, (int,) * 9),
    ):
        with pytest.raises((TypeError, AttributeError)):
            call()
    with pytest.raises(IndexError):
        queue.ready.popleft()
    with pytest.raises(ValueError, match="nan s is not a time"):
        queue.at(nan, (print, None, None))
