"""The status that an actor's runtime reports from time to time: its steps, and for how long it has waited.

`StatusReporter` sends it, and `StallDetector` compares those of all actors.
"""

from __future__ import annotations

import os
import time

import msgspec

from polyrhythm.core.kernel.events import AnyEvent, Computed, Stepped
from polyrhythm.core.kernel.message import Message

EVERY_SECONDS = 5.0
"""An actor from which nothing comes for several times as long is stopped, or cut off."""


class ActorStatus(msgspec.Struct, frozen=True):
    """`clock` steps, the last `ago` seconds ago; `longest` seconds of computing between two exchanges; `stopped` if no step follows.

    `waits` is what the actor waits for, if everything in it has waited for `quiet` seconds and no byte was sent or received; one that is
    `leaving` waits only for all to end, not for work. `calls` if it waits in a call of the program's own, such as `worker.barrier()`.
    """

    pid: int
    clock: int = 0
    ago: float = 0.0
    longest: float = 0.0
    stopped: bool = False
    quiet: float = 0.0
    waits: list[str] = []
    leaving: bool = False
    calls: bool = False

    def message(self) -> Message:
        """The message that carries this status."""
        return Message("condition", text=msgspec.json.encode(self).decode())


class StepTracker:
    """A worker's steps, as its own record has them; `Node` updates it with every event.

    `clock` steps, the last at `last` (CLOCK_MONOTONIC); `longest` seconds of computing between two exchanges, `computed` of all computing.
    `phase` is when the program began to compute, in nanoseconds, or to wait in a call of the library, if negative.
    """

    def __init__(self) -> None:
        self.clock = 0
        self.stopped = False
        self.leaving = False
        self.longest = 0.0
        self.last = 0.0
        self.computed = 0.0
        self.phase = 0

    def compute(self) -> None:
        """The program computes from now on."""
        self.phase = time.monotonic_ns()

    def wait(self) -> None:
        """The program waits in a call of the library from now on."""
        self.phase = -time.monotonic_ns()

    def note(self, event: AnyEvent) -> None:
        """The actor has recorded `event`."""
        if isinstance(event, Stepped):
            self.clock, self.last = event.clock, time.monotonic()
        elif isinstance(event, Computed):
            self.longest = max(self.longest, event.seconds)
            self.computed += event.seconds

    def status(self, quiet: float, waits: list[str], calls: bool) -> ActorStatus:
        """The status of the actor now, with what is known of its steps."""
        ago = time.monotonic() - self.last if self.last else 0.0
        return ActorStatus(os.getpid(), self.clock, ago, self.longest, self.stopped, quiet, waits, self.leaving, calls)
