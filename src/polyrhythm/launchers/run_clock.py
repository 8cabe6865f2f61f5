"""The clock of a run that was attempted several times."""

from __future__ import annotations

import time
from collections.abc import Callable


class RunClock:
    """Seconds since the run first began, from those of its attempts.

    The workers' own clocks continue at the checkpoint from which they were resumed; what was lost since, and the time until all were there
    again, are of the run too.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.latest = 0.0
        self._now = now
        self._origin: float | None = None
        self._offset: float | None = None

    def begin_attempt(self) -> None:
        """The next time that is asked for is the first of an attempt, and just now."""
        self._offset = None

    def of_run(self, seconds: float) -> float:
        """The seconds of the run when the workers' clocks in this attempt show `seconds`."""
        if self._origin is None:
            self._origin = self._now() - seconds
        if self._offset is None:
            self._offset = max(0.0, self._now() - self._origin - seconds)
        self.latest = max(self.latest, seconds + self._offset)
        return seconds + self._offset
