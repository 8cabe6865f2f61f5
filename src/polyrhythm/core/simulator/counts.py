"""How the operations of one program are counted while others run between its waits. `Program` uses a count, its carrier makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from polyrhythm.core.simulator.counting import OperationCounter

T = TypeVar("T")


class Count(Protocol):
    """The operations of one program since they were last taken."""

    @property
    def flops(self) -> int:
        """What was counted so far, and not taken."""

    def start(self) -> None:
        """The program continues."""

    def stop(self) -> int:
        """The program waits or has ended: take what was counted."""

    def take(self) -> int:
        """Take what was counted; counting continues."""

    def free(self, compute: Callable[[], T]) -> T:
        """Call `compute`, and do not count it."""

    def uncounted(self, compute: Callable[[], T]) -> T:
        """Call `compute` without the cost of counting, where that is possible."""

    def counted(self, compute: Callable[[], T]) -> T:
        """Count `compute`, also inside of `uncounted`."""

    def refuse(self) -> None:
        """Raise WorkloadError where the program cannot wait, because counting could not stop."""


class NoCount:
    """Nothing is counted: the steps of the program were measured."""

    __slots__ = ()
    flops = 0

    def start(self) -> None:
        """Nothing is counted."""

    def stop(self) -> int:
        return 0

    def take(self) -> int:
        return 0

    def free(self, compute: Callable[[], T]) -> T:
        return compute()

    uncounted = free
    counted = free

    def refuse(self) -> None:
        """It can always wait."""


class OperationCount:
    """The count of one program by a `counter`, which it may share with others that run in turn."""

    __slots__ = ("_counter", "_kept", "_on")

    def __init__(self, counter: OperationCounter) -> None:
        self._counter = counter
        self._on = True
        self._kept = 0
        """Whether the operations of the program are counted just now; what was, while that is interrupted."""

    @property
    def flops(self) -> int:
        return self._counter.flops if self._on else self._kept

    def start(self) -> None:
        if self._on:
            self._counter.start()

    def stop(self) -> int:
        flops = self._counter.stop() if self._on else self._kept
        self._kept = 0
        return flops

    def take(self) -> int:
        return self._counter.take()

    def free(self, compute: Callable[[], T]) -> T:
        """The counter is taken off meanwhile, where it can be: an evaluation is as fast as outside of a run."""
        before = self._counter.flops
        try:
            return self.uncounted(compute)
        finally:
            if self._on:
                self._counter.flops = before

    def uncounted(self, compute: Callable[[], T]) -> T:
        """A dispatch mode of the program's own, on top of ours, prevents that counting stops."""
        if not self._on or not self._counter.is_on_top:
            return compute()
        self._kept, self._on = self._counter.stop(), False
        try:
            return compute()
        finally:
            self._resume()

    def counted(self, compute: Callable[[], T]) -> T:
        if self._on:
            return compute()
        self._resume()
        try:
            return compute()
        finally:
            self._kept, self._on = self._counter.stop(), False

    def _resume(self) -> None:
        self._counter.start()
        self._counter.flops, self._kept, self._on = self._kept, 0, True

    def refuse(self) -> None:
        if self._on:
            self._counter.refuse_if_covered()
