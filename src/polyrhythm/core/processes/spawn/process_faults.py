"""The launcher's side of the faults of a run on real processes: signals by time, and the word to the children by time and by step."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, get_args

from polyrhythm.core.kernel.events import Faulted, Recorder
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.processes.runtime.actor_faults import INJECT, RESUME
from polyrhythm.core.processes.spawn.supervisor import SupervisedChild, Supervisor
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import (
    Crash,
    Disconnect,
    Exit,
    Fault,
    HoldGIL,
    Join,
    KillWhileWriting,
    Leave,
    Segfault,
    SlowDisk,
    Stall,
)
from polyrhythm.hardware.faults.fault import AwaitedFaults, LineFault, Loss, begins, places, resolved


class ProcessFaults:
    """Injects `faults` into the children of `supervisor`; each is recorded. `clock` gives the seconds since the run began.

    A run whose workers may change sets `joins`, which is called at a `Join`, and may set `leaves`, which gets the name of the actor at a
    `Leave` and by default sends SIGTERM. `over` is true for an actor of which nothing is expected any more.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        loop: EventLoop,
        supervisor: Supervisor,
        record: Recorder,
        clock: Callable[[], float],
    ) -> None:
        self.joins: Callable[[Join], None] = lambda fault: None
        self.leaves: Callable[[str], object] = lambda name: self._signal(name, signal.SIGTERM)
        self.over: Callable[[SupervisedChild], bool] = lambda child: child.dead
        self._faults = list(faults)
        self._awaited = AwaitedFaults(self._faults)
        self._loop = loop
        self._supervisor = supervisor
        self._record = record
        self._clock = clock
        self._handles: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._until = 0.0
        self._handlers: dict[type, Callable[[int, Any], None]] = {
            **dict.fromkeys((Crash, KillWhileWriting), self._crash),
            **dict.fromkeys((Segfault, Exit), self._die),
            **dict.fromkeys(get_args(Loss), self._lose_messages),
            **dict.fromkeys((HoldGIL, SlowDisk), self._tell),
            Stall: self._stall,
            Disconnect: self._cut,
            Leave: self._leave,
            Join: self._join,
        }

    def begin(self) -> None:
        """The run begins: hold on to its processes, and wait for the time of each fault."""
        if not self._faults:
            return
        for child in self._supervisor.children.values():
            self.follow(child)
        for number, fault in enumerate(self._faults):
            if (at := begins(fault)) is not None and not isinstance(fault, Loss):
                self._loop.after(at - self._clock(), lambda number=number, fault=fault: self._inject(number, fault))  # type: ignore[misc]

    def follow(self, child: SupervisedChild) -> None:
        """Hold on to the process of `child`, where the run has faults."""
        if self._faults:
            with suppress(ProcessLookupError):  # it is gone already
                self._handles[child.name] = os.pidfd_open(child.pid)

    def reach(self, child: SupervisedChild, moment: str) -> None:
        """Inject what has waited for this moment of `child`, whose program waits, and let it continue."""
        for fault in self._awaited.take(child.name, moment, self._first()):
            self._inject(next(number for number, each in enumerate(self._faults) if each is fault), fault)
        child.link.send_control(Message(RESUME))

    def reason(self, name: str) -> str:
        """What killed the actor on purpose, in words; empty if nothing did."""
        return self._reasons.get(name, "")

    @property
    def lasting(self) -> bool:
        """True while a fault lasts that makes actors wait and will end: who waits meanwhile is not deadlocked."""
        return self._clock() < self._until

    def close(self) -> None:
        """Let the processes go."""
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()

    def _first(self) -> str:
        children = self._supervisor.children.values()
        return next((child.name for child in children if is_worker(child.name) and not self.over(child)), "")

    def _inject(self, number: int, fault: Fault) -> None:
        self._handlers[type(fault)](number, resolved(fault, self._first()))

    def _present(self, name: str) -> SupervisedChild | None:
        child = self._supervisor.children.get(name)
        return None if child is None or child.dead or self.over(child) else child

    def _crash(self, number: int, fault: Crash | KillWhileWriting) -> None:
        self._kill(fault.actor, fault.what)

    def _kill(self, name: str, what: str) -> None:
        if self._present(name) is not None:
            self._note(name, what, deadly=True)
            self._signal(name, signal.SIGKILL)

    def _die(self, number: int, fault: Segfault | Exit) -> None:
        if (child := self._present(fault.actor)) is not None:
            self._note(fault.actor, fault.what, deadly=True)
            self._send(child, number)

    def _tell(self, number: int, fault: HoldGIL | SlowDisk) -> None:
        if (child := self._present(fault.actor)) is not None:
            self._note(fault.actor, fault.what)
            self._last(fault.duration if isinstance(fault, HoldGIL) else fault.seconds)
            self._send(child, number)

    def _stall(self, number: int, fault: Stall) -> None:
        if self._present(fault.actor) is not None:
            self._note(fault.actor, fault.what)
            self._last(fault.duration)
            self._signal(fault.actor, signal.SIGSTOP)
            self._loop.after(fault.duration, lambda: self._signal(fault.actor, signal.SIGCONT))

    def _cut(self, number: int, fault: Disconnect) -> None:
        self._note(fault.a, fault.what)
        self._last(fault.duration)
        for name in (fault.a, fault.b):
            if (child := self._present(name)) is not None:
                self._send(child, number)

    def _lose_messages(self, number: int, fault: Loss) -> None:
        self._note(self._first(), fault.what)
        for child in self._supervisor.children.values():
            if self._present(child.name) is not None:
                self._send(child, number)

    def _leave(self, number: int, fault: Leave) -> None:
        if self._present(fault.actor) is None:
            return
        self._note(fault.actor, fault.what)
        self.leaves(fault.actor)
        if fault.notice < math.inf:
            self._loop.after(fault.notice, lambda: self._kill(fault.actor, "crashed at the end of its notice"))

    def _join(self, number: int, fault: Join) -> None:
        self._note(self._first(), fault.what)
        self.joins(fault)

    def _send(self, child: SupervisedChild, number: int) -> None:
        child.link.send_control(Message(INJECT, (float(number),), self._first()))

    def _signal(self, name: str, number: int) -> None:
        with suppress(ProcessLookupError, KeyError):  # it has ended meanwhile
            signal.pidfd_send_signal(self._handles[name], number)

    def _note(self, name: str, what: str, deadly: bool = False) -> None:
        self._record(Faulted(self._clock(), name, what))
        if deadly:
            self._reasons[name] = f"it {what}, as scheduled"

    def _last(self, seconds: float) -> None:
        if seconds < math.inf:
            self._until = max(self._until, self._clock() + seconds)


def refuse_virtual(faults: Sequence[Fault], devices: dict[str, str]) -> None:
    """Raise CompositionError for faults that real processes cannot have."""
    for fault in faults:
        if not isinstance(fault, LineFault):
            continue
        elsewhere = [name for name in places(fault) if name.startswith(("host/", "site/"))]
        if elsewhere:
            raise CompositionError(
                f"{fault} is about {elsewhere[0]}, and real processes are all on this host: name actors, or give pr.Simulator(network=...)."
            )
        if set(devices.values()) != {"cpu"}:
            raise CompositionError(
                f"{fault} cannot be had on CUDA devices, whose sums take other ways: give pr.Processes(cuda=False), or leave it out."
            )
