"""The end of a worker of a crew that changes, when it is asked to end: it leaves with notice, and the others continue."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from polyrhythm.core.kernel.stopping import come_again
from polyrhythm.core.processes.rendezvous.joined_crew import JoinedCrew
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.errors import PolyrhythmError, Stopped

_NOTICE_SECONDS = 25.0
"""Batch systems and Kubernetes kill a process 30 seconds after SIGTERM."""


class LeaveRequest:
    """The request that the worker of `node` leaves `crew`. Where it may not, or has not left in time, the signal ends it as any other."""

    def __init__(self, node: Node, crew: JoinedCrew) -> None:
        self._node = node
        self._crew = crew
        self._problem: Stopped | None = None
        self._timer: threading.Timer | None = None
        crew.on_stay = self._break_off

    def ask(self, problem: Stopped) -> None:
        """Ask to leave at the next cut. At the end of the run all leave anyway; a process that is not admitted ends at once."""
        if not (self._crew.may_leave or self._crew.ended):
            raise problem
        self._problem = problem
        self._timer = threading.Timer(_NOTICE_SECONDS, self._break_off)
        self._timer.daemon = True
        self._timer.start()
        if not self._crew.ended:
            self._node.loop.call(self._crew.ask_to_leave)

    def close(self) -> None:
        """The worker has left."""
        self._problem = None
        if self._timer is not None:
            self._timer.cancel()

    def explained(self, problem: Stopped, lost: Sequence[str]) -> PolyrhythmError | Stopped:
        """The signal, as it is."""
        self.close()
        return problem

    def _break_off(self) -> None:
        """Have the signal come once more, which raises Stopped where the program is."""
        if self._problem is not None and not self._crew.departed:
            come_again(self._problem)
