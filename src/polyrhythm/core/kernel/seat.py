"""The place that a thread has in a run already: `join` makes a worker of it there, where a process would look for a launcher."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.location import Location
from polyrhythm.errors import CompositionError


class Seat(Protocol):
    """A rank's, in a run that is under way."""

    def joined(self, group: Any) -> tuple[WorkerContext, tuple[Location, ...]]:
        """The context of a worker among the ranks of a process `group` of torch.distributed, all of the run if None, and all locations.

        Each call is for another run of these ranks. Raises CompositionError if this rank is not in the group.
        """

    def usual(self) -> Any:
        """The strategy of a worker that names none; None where the run has chosen none either."""

    def leaves(self, leave: Any) -> None:
        """Have `leave` called at the end of the rank's program."""

    def left(self) -> None:
        """The rank is no worker any more."""


_here = threading.local()


def seat() -> Seat | None:
    """The seat of this thread, if it has one."""
    return getattr(_here, "seat", None)


@contextmanager
def seated(taken: Seat | None) -> Iterator[None]:
    """Let this thread be one of a program in virtual time, with a seat; without one, that which starts the ranks."""
    before = seat(), getattr(_here, "simulated", False)
    _here.seat, _here.simulated = taken, True
    try:
        yield
    finally:
        _here.seat, _here.simulated = before


def refuse_within_program(what: str) -> None:
    """Raises CompositionError for `what` starts workers of its own, in a thread of a program that is in virtual time already."""
    if getattr(_here, "simulated", False):
        raise CompositionError(
            f"{what} starts workers itself, in a script that is simulated already, where each rank would start others: run the script with "
            "python, or give its function train(worker) to polyrhythm run or compare. A rank becomes a worker by pr.join()."
        )
