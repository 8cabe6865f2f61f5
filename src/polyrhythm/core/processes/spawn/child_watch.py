"""Watches the children of a launcher by their beats: records who is suspected, and has a policy say what becomes of it.

`LaunchedRun` has one, and asks it to look four times a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

from polyrhythm.core.kernel.events import Suspected
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.processes.runtime.beats import BeatLimits, BeatObserver, Liveness, PeerFinding, process_state
from polyrhythm.core.processes.runtime.suspicions import Suspicions
from polyrhythm.core.processes.spawn.supervisor import Supervisor

STOPPED_SECONDS = 5.0
"""A worker that may be replaced may be stopped for so long, by a shell or a debugger."""


class Reaction(Enum):
    """What is done about a suspect: nothing, or its process is killed, so that it is lost as any other."""

    WAIT = "wait"
    REPLACE = "replace"


OnStalled = Callable[[str, PeerFinding], Reaction]
"""Called with a suspect's name at each look while it is suspected: a policy can wait for some seconds first."""


def wait(name: str, found: PeerFinding) -> Reaction:
    """Wait for a suspect for as long as it takes."""
    return Reaction.WAIT


def replace_stopped(name: str, found: PeerFinding) -> Reaction:
    """Have a worker lost that is stopped or cut off, so that another takes its place."""
    stopped = found.verdict in (Liveness.STOPPED, Liveness.UNREACHABLE) and is_worker(name)
    return Reaction.REPLACE if stopped and time.monotonic() - found.since > STOPPED_SECONDS else Reaction.WAIT


class ChildWatch:
    """The watch over the children of `supervisor`; `record` gets times of CLOCK_MONOTONIC, as `look` does."""

    def __init__(self, supervisor: Supervisor, limits: BeatLimits, record: Callable[[Suspected], None], on_stalled: OnStalled) -> None:
        self._supervisor = supervisor
        self._record = record
        self._on_stalled = on_stalled
        self.observer = BeatObserver(limits, lambda name, pid: process_state(pid))
        self._suspicions = Suspicions(self.observer)

    def begin(self) -> None:
        """All are up."""
        self.observer.begin(self._supervisor.children)

    def admit(self, name: str) -> None:
        """The actor `name` has come up later."""
        self.observer.begin([name])

    def forget(self, name: str) -> None:
        """The actor `name` has ended, or is lost."""
        self.observer.forget(name)
        self._suspicions.forget(name)

    def look(self, now: float) -> None:
        """Take in the beats that have come, record what has changed, and ask the policy about all suspects."""
        for name, beat in self._supervisor.beats():
            self.observer.beat(name, beat, beat.sent * 1e-9)
        changes, suspects = self._suspicions.look(now)
        for found in changes:
            self._record(Suspected(now, found.name, found.verdict, found.since))
        for found in suspects:
            if self._on_stalled(found.name, found) is Reaction.REPLACE:
                self._supervisor.kill(found.name)
