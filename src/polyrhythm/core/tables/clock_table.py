"""The clock table of stale synchronous parallelism: whose updates are visible, and which workers may read."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from polyrhythm.core.protocols.consistency import Consistency

Content = TypeVar("Content")


class Flushed(NamedTuple, Generic[Content]):
    """The updates of a worker up to its `clock`."""

    sender: str
    clock: int
    content: Content


class ClockTable(Generic[Content]):
    """Decides when updates become visible: the clocks of stale synchronous parallelism at one server.

    `clocks` are, by worker, the last clock whose updates are visible; the clock that it has started is not. Flushes wait in `pending` until
    the consistency's quorum of workers have one; then the oldest of each of these are merged at once, in rank order, so that a quorum of
    all gives the same bits whatever the order of arrival. A worker that is `done` or lost is not waited for.
    """

    def __init__(self, consistency: Consistency, workers: Sequence[str]) -> None:
        self.may_proceed = consistency.conditions.may_proceed
        self.quorum = consistency.conditions.quorum(len(workers))
        self.clocks = dict.fromkeys(workers, 0)
        self.pending: dict[str, deque[Flushed[Content]]] = {name: deque() for name in workers}
        self.done: set[str] = set()

    @property
    def slowest(self) -> float:
        """The smallest visible clock of the workers that are not done or have flushes waiting; infinite where there are none."""
        return min((clock for name, clock in self.clocks.items() if name not in self.done or self.pending[name]), default=math.inf)

    @property
    def over(self) -> bool:
        """True if every worker is done."""
        return self.done.issuperset(self.clocks)

    def last(self, name: str) -> int:
        """The clock of a worker's latest flush that has come."""
        waiting = self.pending[name]
        return waiting[-1].clock if waiting else self.clocks[name]

    def take(self, flush: Flushed[Content]) -> None:
        """Add a worker's flush; those of one worker come in order."""
        self.pending[flush.sender].append(flush)

    def end(self, name: str) -> None:
        """Note that a worker has sent all that it will."""
        self.done.add(name)

    def lose(self, name: str) -> None:
        """Note that a worker is lost; what it has sent still counts."""
        self.done.add(name)
        if not self.pending[name]:
            self.clocks.pop(name, None)

    def next_group(self) -> list[Flushed[Content]]:
        """The flushes to merge now, at most one of each worker, which are visible afterwards; empty if there are none yet."""
        ready = [name for name, waiting in self.pending.items() if waiting]
        active = [name for name in self.clocks if name not in self.done]
        if not ready or (len(ready) < self.quorum and any(name not in ready for name in active)):
            return []
        group = [self.pending[name].popleft() for name in ready]
        self.clocks |= {flush.sender: flush.clock for flush in group}
        return group

    def may_read(self, clock: int) -> bool:
        """True if a worker that has ended `clock` may read, because enough updates of the others are visible."""
        return self.may_proceed(clock, self.slowest)
