"""The end of a run in virtual time that was asked to stop: after the same step of all workers, with a last checkpoint, or without one."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial

from polyrhythm.core.kernel.stopping import come_again
from polyrhythm.errors import Stopped


@dataclass(slots=True)
class VirtualStop:
    """`grace` are the real seconds that the last checkpoint may take; 0 where none can be written. `clocks` are steps by worker."""

    grace: float
    problem: Stopped | None = None
    clocks: dict[str, int] = field(default_factory=dict)
    step: int = 0
    timer: threading.Timer | None = None

    def ask(self, problem: Stopped) -> None:
        """A signal asks the run to stop; after the grace time it comes once more, and then breaks the run off."""
        if not self.grace:
            raise problem
        self.problem, problem.kept = problem, False
        self.timer = threading.Timer(self.grace, partial(come_again, problem))
        self.timer.daemon = True
        self.timer.start()

    def last_step(self, name: str, clock: int) -> int | None:
        """The step after which all workers stop, asked by the worker `name` after `clock` steps; None while the run was not asked to stop.

        It is one beyond the furthest worker: every other one asks again after its next step.
        """
        self.clocks[name] = clock
        if self.problem is None:
            return None
        self.step = self.step or max(self.clocks.values()) + 1
        return self.step

    def stop(self, kept: bool) -> None:
        """End the run by raising its Stopped, which says whether the last checkpoint was `kept`."""
        assert self.problem is not None, "else there is no step to stop after"
        self.problem.kept = kept
        raise self.problem

    def close(self) -> None:
        """The run is over, in whatever way."""
        if self.timer is not None:
            self.timer.cancel()
