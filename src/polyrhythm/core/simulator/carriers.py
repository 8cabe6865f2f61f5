"""Carriers: what a blocking program runs in between two waits, so that the scheduler can leave it and come back.

`Program` uses one, and the job says which. A greenlet costs little, so that there can be thousands, but torch keeps some state on
the thread that they share. A thread has its own: its program may wait inside of a backward pass or of its own dispatch modes, and be in
groups of torch.distributed that the others do not see. In either, one program runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import greenlet  # type: ignore[import-untyped]

from polyrhythm.core.simulator.charging import ByOperations, Charging
from polyrhythm.core.simulator.counting import OperationCounter
from polyrhythm.core.simulator.counts import Count, NoCount, OperationCount
from polyrhythm.core.simulator.isolation import ThreadState, refuse_unsafe_places
from polyrhythm.core.simulator.randomness import Randomness
from polyrhythm.hardware.devices import Machine

Killed = greenlet.GreenletExit
"""Raised in a program that must end where it is."""


Body = Callable[[], Any]
"""A program with its context."""


class ProgramCarrier(Protocol):
    """One program's."""

    @property
    def count(self) -> Count:
        """The operations that it has computed."""

    @property
    def charging(self) -> Charging:
        """How long that takes."""

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

    charging: ClassVar[Charging] = ByOperations()

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


class Carriers(Protocol):
    """Carries the programs of one run."""

    def state(self, separate: bool) -> Randomness | None:
        """What belongs to a process and is each program's own, if they are to be `separate`."""

    def carry(self, body: Body, name: str, machine: Machine) -> ProgramCarrier:
        """The carrier of the program `name`, which computes on `machine`."""


class Greenlets:
    """Programs in greenlets, which share a counter."""

    def __init__(self) -> None:
        self._counter = OperationCounter()

    def state(self, separate: bool) -> Randomness | None:
        return Randomness() if separate else None

    def carry(self, body: Body, name: str, machine: Machine) -> ProgramCarrier:
        return GreenletCarrier(body, None if machine.measured else self._counter)
