"""Carriers: what a blocking program runs in between two waits, so that the scheduler can leave it and come back.

`Program` uses one, and the job says which. A greenlet costs little, so that there can be thousands, but torch keeps some state on
the thread that they share. A thread has its own: its program may wait inside of a backward pass or of its own dispatch modes, and be in
groups of torch.distributed that the others do not see. In either, one program runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

import greenlet  # type: ignore[import-untyped]
import torch

from polyrhythm.core.simulator.counting import CounterOfThread, OperationCounter
from polyrhythm.core.simulator.counts import Count, NoCount, OperationCount
from polyrhythm.core.simulator.isolation import ThreadState, refuse_unsafe_places

Killed = greenlet.GreenletExit
"""Raised in a program that must end where it is."""


Body = Callable[[], Any]
"""A program with its context."""


class ProgramCarrier(Protocol):
    """One program's."""

    count: Count

    @property
    def ended(self) -> bool:
        """True if the program has returned or has raised."""

    def run(self, value: Any, error: BaseException | None) -> Any:
        """The scheduler continues the program until it waits, with what it waits for, or returns; raises what it raises."""

    def wait(self, request: Any) -> Any:
        """The program waits; returns the value with which it is continued, or raises the error."""

    def refuse(self) -> None:
        """Raise WorkloadError where the program cannot wait."""


class GreenletCarrier:
    """A program in a greenlet. Greenlets may not be switched inside of an autograd hook; after `backward` it is fine."""

    __slots__ = ("_greenlet", "_scheduler", "_state", "count")

    def __init__(self, body: Body, counter: OperationCounter | None) -> None:
        self.count: Count = NoCount() if counter is None else OperationCount(counter)
        self._scheduler = greenlet.getcurrent()
        self._greenlet = greenlet.greenlet(lambda _: body())
        self._state = ThreadState()

    @property
    def ended(self) -> bool:
        return bool(self._greenlet.dead)

    def run(self, value: Any, error: BaseException | None) -> Any:
        """The thread has the program's own state meanwhile."""
        self._state.load()
        try:
            if error is None:
                return self._greenlet.switch(value)
            return self._greenlet.throw(type(error), error, error.__traceback__)
        finally:
            self._state.save()

    def wait(self, request: Any) -> Any:
        return self._scheduler.switch(request)

    def refuse(self) -> None:
        refuse_unsafe_places()
        self.count.refuse()


class ThreadCarrier:
    """A program in a thread, which waits in turn with the scheduler's.

    Autograd runs in this thread too, so that hooks of a backward pass may wait. What torch.distributed keeps by thread is the program's.
    """

    __slots__ = ("_body", "_error", "_given", "_result", "_resumed", "_started", "_thread", "_yielded", "count", "counter", "ended")

    def __init__(self, body: Body, name: str, counts: bool) -> None:
        self.counter = CounterOfThread() if counts else None
        self.count: Count = NoCount() if self.counter is None else OperationCount(self.counter)
        self.ended = False
        self._body = body
        self._given: tuple[Any, BaseException | None] = (None, None)
        self._result: Any = None
        self._error: BaseException | None = None
        self._started = False
        self._resumed, self._yielded = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)

    def run(self, value: Any, error: BaseException | None) -> Any:
        self._given = (value, error)
        if not self._started:
            if error is not None:
                self.ended = True
                return None
            self._started = True
            self._thread.start()
        else:
            self._resumed.release()
        self._yielded.acquire()
        if self.ended:
            self._thread.join()
        if (problem := self._error) is not None:
            self._error = None
            raise problem
        return self._result

    def wait(self, request: Any) -> Any:
        self._result = request
        self._yielded.release()
        self._resumed.acquire()
        value, error = self._given
        if error is not None:
            raise error
        return value

    def refuse(self) -> None:
        """It can wait anywhere."""

    def _live(self) -> None:
        torch.set_num_threads(1)
        try:
            with torch.autograd.set_multithreading_enabled(False), self.counter or nullcontext():
                self._result = self._body()
        except Killed:
            self._result = None
        except BaseException as problem:
            self._error = problem
        self.ended = True
        self._yielded.release()


def greenlets() -> Callable[[Body, str, bool], ProgramCarrier]:
    """Carry programs in greenlets, which share a counter; each is given its body, its name and whether its operations are counted."""
    counter = OperationCounter()
    return lambda body, name, counts: GreenletCarrier(body, counter if counts else None)
