"""Programs in threads, of which one runs at a time."""

from __future__ import annotations

import linecache
import sys
import threading
from _thread import allocate_lock
from contextlib import nullcontext
from time import process_time
from types import FrameType
from typing import Any

import torch

from polyrhythm.core.simulator.carriers import Body, Killed, ProgramCarrier
from polyrhythm.core.simulator.charging import ByOperations, Charging, Uncharged, Where, charging_of
from polyrhythm.core.simulator.counting import CounterOfThread
from polyrhythm.core.simulator.counts import Count, NoCount, OperationCount
from polyrhythm.core.simulator.process_state import OwnModules, ProcessState
from polyrhythm.core.simulator.randomness import Randomness
from polyrhythm.errors import DeadlockError
from polyrhythm.hardware.devices import Machine
from polyrhythm.hardware.segments import SegmentTimes

STANDSTILL_SECONDS = 10.0
"""Real seconds after which it is looked whether a program computes; that it has not in as many more makes it stuck."""
LEAST = 0.01
"""The part of that time that a process uses at least, if it computes."""
_WAITS_FOR_PROCESSES = ("/subprocess.py", "/torch/utils/data/", "/multiprocessing/pool.py", "/multiprocessing/process.py", "/concurrent/")
"""Files of functions that wait for what is no other program of the run, and comes to an end."""


class Threads:
    """Carries programs in threads. `where` is the line of the program that waits, and what cannot be charged is noted in `uncharged`.

    The modules `owns` are each program's own. With `found`, the CPU seconds of programs are measured.
    """

    def __init__(self, where: Where, uncharged: Uncharged, owns: OwnModules, found: SegmentTimes | None = None) -> None:
        self._where = where
        self._uncharged = uncharged
        self._owns = owns
        self._found = found

    def state(self, separate: bool) -> Randomness | None:
        return ProcessState(self._owns)

    def carry(self, body: Body, name: str, machine: Machine) -> ProgramCarrier:
        charging = charging_of(machine, self._where, self._uncharged, self._found)
        counter = None if machine.measured or self._found is not None else CounterOfThread(self._uncharged.operations)
        return ThreadCarrier(body, name, counter, charging)


class InThreads:
    """Carries workers in threads, since their passes communicate: what is a process's own is then theirs as in greenlets."""

    def state(self, separate: bool) -> Randomness | None:
        return Randomness() if separate else None

    def carry(self, body: Body, name: str, machine: Machine) -> ProgramCarrier:
        return ThreadCarrier(body, name, None if machine.measured else CounterOfThread())


class ThreadCarrier:
    """A program in a thread, which waits in turn with the scheduler's.

    Autograd runs in this thread too, so that hooks of a backward pass may wait. What torch.distributed keeps by thread is the program's.
    """

    __slots__ = (
        "_body",
        "_counter",
        "_error",
        "_given",
        "_name",
        "_result",
        "_resumed",
        "_started",
        "_thread",
        "_yielded",
        "charging",
        "count",
        "ended",
    )

    def __init__(self, body: Body, name: str, counter: CounterOfThread | None, charging: Charging | None = None) -> None:
        self.count: Count = NoCount() if counter is None else OperationCount(counter)
        self.charging: Charging = charging or ByOperations()
        self.ended = False
        self._counter = counter
        self._body = body
        self._name = name
        self._given: tuple[Any, BaseException | None] = (None, None)
        self._result: Any = None
        self._error: BaseException | None = None
        self._started = False
        self._resumed, self._yielded = allocate_lock(), allocate_lock()
        self._resumed.acquire()
        self._yielded.acquire()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)

    def run(self, value: Any, error: BaseException | None) -> Any:
        """Raises DeadlockError, and gives the thread up, where it waits for what another program would have to do."""
        self._given = (value, error)
        if not self._started:
            if error is not None:
                self.ended = True
                return None
            self._started = True
            self._thread.start()
        else:
            self._resumed.release()
        if not self._yielded.acquire(timeout=STANDSTILL_SECONDS):
            self._watch()
        if self.ended:
            self._thread.join()
        if (problem := self._error) is not None:
            self._error = None
            raise problem
        return self._result

    def wait(self, request: Any) -> Any:
        if self.ended:  # it was stuck, and has been given up
            raise Killed
        self._result = request
        self.charging.end()
        self._yielded.release()
        self._resumed.acquire()
        self.charging.begin()
        value, error = self._given
        if error is not None:
            raise error
        return value

    def refuse(self) -> None:
        """It can wait anywhere."""

    def _live(self) -> None:
        torch.set_num_threads(1)
        self.charging.begin()
        try:
            with torch.autograd.set_multithreading_enabled(False), self._counter or nullcontext():
                self._result = self._body()
        except Killed:
            self._result = None
        except BaseException as problem:
            self._error = problem
        self.charging.end(ended=True)
        self.ended = True
        self._yielded.release()

    def _watch(self) -> None:
        """Wait for the thread as long as the process computes, or waits for another process."""
        used = process_time()
        while not self._yielded.acquire(timeout=STANDSTILL_SECONDS):
            before, used = used, process_time()
            frame = sys._current_frames().get(self._thread.ident or 0)
            if used - before < LEAST * STANDSTILL_SECONDS and frame is not None and not waits_for_processes(frame):
                self.ended = True
                raise stuck(self._name, 2 * STANDSTILL_SECONDS, shown_line(frame))


def stuck(name: str, seconds: float, where: str) -> DeadlockError:
    """The error of a program that waits for what no other can do."""
    return DeadlockError(
        f"{name} has waited for {seconds:.3g} s of real time {where}, outside of torch.distributed. Of the ranks of a simulation one runs "
        "at a time, so that no other can do what it waits for: wait in torch.distributed, such as in a barrier."
    )


def waits_for_processes(frame: FrameType | None) -> bool:
    """True if what `frame` waits for is no other program of the run, and comes to an end."""
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _WAITS_FOR_PROCESSES):
            return True
        frame = frame.f_back
    return False


def shown_line(frame: FrameType | None) -> str:
    """The innermost line that is not of Python or torch, with its text."""
    innermost = frame
    while frame is not None and any(part in frame.f_code.co_filename for part in ("/lib/python", "/site-packages/", "<frozen")):
        frame = frame.f_back
    frame = frame or innermost
    assert frame is not None
    name, line = frame.f_code.co_filename, frame.f_lineno
    return f"at {name.rpartition('/')[2]}:{line}: {linecache.getline(name, line).strip() or frame.f_code.co_name}"
