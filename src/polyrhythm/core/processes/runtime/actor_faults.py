"""The faults that happen inside of the process of one actor: its launcher says when, except at the actor's own steps and checkpoints."""

from __future__ import annotations

import ctypes
import os
import pickle
import time
from collections.abc import Callable

from polyrhythm.core.atomic import writing
from polyrhythm.core.kernel.events import AnyEvent, Faulted, Stepped
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.processes.runtime.faulty_outbox import FaultyOutbox
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.hardware.faults import DatagramFaults, Disconnect, Drop, Exit, Fault, HoldGIL, Segfault, SlowDisk
from polyrhythm.hardware.faults.checks import FIRST
from polyrhythm.hardware.faults.fault import AwaitedFaults, resolved
from polyrhythm.hardware.faults.losses import Losses

_LONGEST_MICROSECONDS = 2**32 - 1
INJECT, MOMENT, RESUME = "inject", "moment", "resume"
"""Messages of a launcher, of an actor, and of a launcher again: do that; I have come to this moment, and wait; continue."""


class ActorFaults:
    """The part of an actor, on `node`, in its run's faults, `packed` by `pack`. `ask` sends the launcher a moment, in the loop's thread."""

    def __init__(self, name: str, node: Node, packed: bytes, seed: int, ask: Callable[[str], None]) -> None:
        self._faults: list[Fault] = pickle.loads(packed)
        self._name = name
        self._node = node
        self._ask = ask
        awaited = AwaitedFaults(self._faults).moments
        self._moments = {*awaited.get(name, []), *awaited.get(FIRST, [])}
        self._losses = Losses(self._faults, seed, node.port.now, self._lost)
        self._outbox = FaultyOutbox(name, node.peers, node.loop, self._losses)
        self._resumed = Completion()
        self._checkpoints = 0
        self._disks: list[tuple[float, float]] = []
        node.actor.outbox = self._outbox

    def follow(self, context: NodeContext) -> None:
        """Watch the steps and the checkpoints of a worker's `context`."""
        record = context.record

        def observe(event: AnyEvent) -> None:
            record(event)
            if isinstance(event, Stepped):
                self._reach(f"step {event.clock}")

        context.record, context.written = observe, self._written

    def receive(self, message: Message) -> None:
        """Do what the launcher says, or let the program continue, which waits at a moment; in the loop's thread."""
        if message.topic == RESUME:
            self._resumed.finish(None, None)
        else:
            self._inject(message)

    def settle(self) -> None:
        """Wait until no cut connection holds messages any more: before the actor announces its end."""
        settled = Completion()
        self._node.loop.call(lambda: self._outbox.when_drained(lambda: settled.finish(None, None)))
        settled.wait()

    def _inject(self, message: Message) -> None:
        match fault := resolved(self._faults[int(message.numbers[0])], message.text):
            case HoldGIL():
                _hold_gil(fault.duration)
            case Segfault():
                import resource  # here, because this package is imported where there is none, too

                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                ctypes.string_at(0)
            case Exit():
                os._exit(fault.status)
            case SlowDisk():
                self._disks.append((time.monotonic() + fault.duration, fault.seconds))
            case Disconnect():
                self._outbox.cut(fault.b if fault.a == self._name else fault.a, fault.duration)
            case Drop() | DatagramFaults():
                self._losses.begin(fault)

    def _reach(self, moment: str) -> None:
        if moment in self._moments:
            self._moments.discard(moment)
            self._resumed = Completion()
            self._node.loop.call(lambda: self._ask(moment))
            self._resumed.wait()

    def _written(self) -> None:
        """A part of a checkpoint is written, and nobody has committed that yet."""
        self._checkpoints += 1
        self._reach(f"checkpoint {self._checkpoints}")
        with writing():
            time.sleep(sum(seconds for until, seconds in self._disks if time.monotonic() < until))

    def _lost(self, sender: str, receiver: str, topic: str) -> None:
        self._node.record(Faulted(self._node.port.now(), sender, f"a message to {receiver} was lost"))


def pack(faults: list[Fault]) -> bytes:
    """The faults for a `JobSpec`; empty where there are none."""
    return pickle.dumps(faults) if faults else b""


def _hold_gil(seconds: float) -> None:
    """Call C without releasing the interpreter's lock, in one call, since other threads take it between two; a signal may end it early."""
    sleep, until = ctypes.PyDLL(None).usleep, time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        sleep(ctypes.c_uint(min(int(left * 1e6) + 1, _LONGEST_MICROSECONDS)))
