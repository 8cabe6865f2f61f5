"""Programs in processes of their own, of which one runs at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import greenlet  # type: ignore[import-untyped]

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.simulator.carriers import Body, ProgramCarrier
from polyrhythm.core.simulator.charging import Charging, Uncharged, charging_of
from polyrhythm.core.simulator.randomness import Randomness
from polyrhythm.hardware.devices import Machine
from polyrhythm.hardware.segments import SegmentTimes
from polyrhythm.torch_programs.meeting import Shared
from polyrhythm.torch_programs.processes.costs import RemoteCount
from polyrhythm.torch_programs.processes.forks import Forks, borrowed
from polyrhythm.torch_programs.processes.handle import RankHandle
from polyrhythm.torch_programs.processes.requests import attend

Given = Callable[[int, bool, bool], bytes]
"""What the process of a rank begins with, whether its operations are counted, and whether its lines matter."""


class RankProcesses:
    """Carries programs in processes, `forks` that begin with what is `given`. What cannot be charged is noted in `uncharged`.

    With `found`, the CPU seconds of programs are measured.
    """

    def __init__(self, forks: Forks, given: Given, uncharged: Uncharged, found: SegmentTimes | None = None) -> None:
        self._forks = forks
        self._given = given
        self._uncharged = uncharged
        self._found = found
        self._started: dict[str, tuple[RankHandle, RemoteCount]] = {}

    def state(self, separate: bool) -> Randomness | None:
        return None

    def carry(self, body: Body, name: str, machine: Machine) -> ProgramCarrier:
        counted = not machine.measured and self._found is None
        started = RankHandle(name, self._forks, self._given(rank_of(name), counted, self._found is not None or machine.segmented))
        count = RemoteCount()
        self._started[name] = started, count
        return ProcessCarrier(body, count, charging_of(machine, count.where, self._uncharged, self._found, count.seconds))

    def one(self, shared: Shared, context: WorkerContext) -> Message | None:
        """Be the rank of `context`, in its process."""
        started, count = self._started[context.port.name]
        return attend(context, shared, started, count, self._uncharged.operations.update)

    def close(self) -> None:
        """End all of them."""
        for started, _ in self._started.values():
            started.close()


@contextmanager
def processes(given: Given, uncharged: Uncharged, found: SegmentTimes | None = None) -> Iterator[RankProcesses]:
    """Those of one run, which are ended with it."""
    with borrowed() as forks, closing(RankProcesses(forks, given, uncharged, found)) as made:
        yield made


class ProcessCarrier:
    """A program in a process; what it asks for is done in a greenlet here."""

    __slots__ = ("_greenlet", "_scheduler", "charging", "count")

    def __init__(self, body: Body, count: RemoteCount, charging: Charging) -> None:
        self.count = count
        self.charging = charging
        self._scheduler = greenlet.getcurrent()
        self._greenlet = greenlet.greenlet(lambda _: self._live(body))

    @property
    def ended(self) -> bool:
        return bool(self._greenlet.dead)

    def run(self, value: Any, error: BaseException | None) -> Any:
        if error is None:
            return self._greenlet.switch(value)
        return self._greenlet.throw(type(error), error, error.__traceback__)

    def wait(self, request: Any) -> Any:
        self.charging.end()
        value = self._scheduler.switch(request)
        self.charging.begin()
        return value

    def refuse(self) -> None:
        """It can wait anywhere."""

    def _live(self, body: Body) -> Any:
        self.charging.begin()
        result = body()
        self.charging.end(ended=True)
        return result
