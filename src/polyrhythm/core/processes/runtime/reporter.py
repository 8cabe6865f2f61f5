"""Sends an actor's status to those that look for stalls."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.status import EVERY_SECONDS, ActorStatus

_LOOK_SECONDS = 0.5
_LOOKS = 4
"""Looks in the time after which an actor counts as waiting for long; with fewer, one that lacks a processor would seem to wait."""


class StatusReporter:
    """Looks at an actor regularly, in its loop, and sends its status: when that changes, and every few seconds.

    `thresholds` are the seconds of waiting that are reported at once.
    """

    def __init__(self, node: Node, thresholds: tuple[float, float], send: Callable[[ActorStatus], None]) -> None:
        self._node = node
        self._thresholds = thresholds
        self._send = send
        self._interval = min(min(thresholds) / _LOOKS, _LOOK_SECONDS)
        self._quiet, self._moved = 0.0, 0
        self._reported: tuple[int, bool, bool] | None = None
        self._silent = 0.0

    def look(self) -> None:
        """Look now, and again before long."""
        waits, moved = self._node.standstill(), self._node.moved
        self._quiet = self._quiet + self._interval if waits and moved == self._moved else 0.0
        self._moved = moved
        self._silent += self._interval
        steps = self._node.steps
        state = (sum(self._quiet >= each for each in self._thresholds), steps.stopped, steps.leaving)
        if state != self._reported or self._silent >= EVERY_SECONDS:
            self._reported, self._silent = state, 0.0
            waiting = state[0] > 0  # less than that comes and goes without being reported
            self._send(steps.status(self._quiet if waiting else 0.0, waits if waiting else [], self._node.calls))
        self._node.loop.after(self._interval, self.look)
