"""Whose updates are visible, and who may read: the clock table of stale synchronous parallelism."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from polyrhythm.core.protocols.consistency import Consistency

Content = TypeVar("Content")


class Flushed(NamedTuple, Generic[Content]):
    """What a worker did up to its `clock`."""

    sender: str
    clock: int
    content: Content


class ClockTable(Generic[Content]):
    """`clocks` are, by worker, the last clock whose updates are visible: not the one that it has begun.

    Flushes wait in `pending` until the consistency's quorum of workers have one; then the oldest of each of these are merged at once, in
    rank order, so that a quorum of all gives the same bits whatever the order of arrival. Who is `done` or lost is not waited for.
    """

    def __init__(self, consistency: Consistency, workers: Sequence[str]) -> None:
        self.consistency = consistency
        self.quorum = consistency.quorum(len(workers))
        self.clocks = dict.fromkeys(workers, 0)
        self.pending: dict[str, deque[Flushed[Content]]] = {name: deque() for name in workers}
        self.done: set[str] = set()

    @property
    def slowest(self) -> float:
        """The least clock that is visible, of the workers of which more can come; infinite where all is."""
        return min((clock for name, clock in self.clocks.items() if name not in self.done or self.pending[name]), default=math.inf)

    @property
    def over(self) -> bool:
        """Whether no worker is left that is not done."""
        return self.done.issuperset(self.clocks)

    def take(self, flush: Flushed[Content]) -> None:
        """A worker's flush has come; each worker's come in order."""
        self.pending[flush.sender].append(flush)

    def end(self, name: str) -> None:
        """A worker has sent all that it will."""
        self.done.add(name)

    def lose(self, name: str) -> None:
        """A worker is gone; what it has sent counts."""
        self.done.add(name)
        if not self.pending[name]:
            self.clocks.pop(name, None)

    def next_group(self) -> list[Flushed[Content]]:
        """The flushes that are to be merged now, at most one of each worker; afterwards they are visible. Empty where none are."""
        ready = [name for name, waiting in self.pending.items() if waiting]
        active = [name for name in self.clocks if name not in self.done]
        if not ready or (len(ready) < self.quorum and any(name not in ready for name in active)):
            return []
        group = [self.pending[name].popleft() for name in ready]
        self.clocks |= {flush.sender: flush.clock for flush in group}
        return group

    def may_read(self, clock: int) -> bool:
        """Whether a worker that has ended `clock` may read: whether enough of what the others did is visible."""
        return self.consistency.may_proceed(clock, self.slowest)
