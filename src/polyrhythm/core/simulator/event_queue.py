"""The queue of future work: ordered by time, and at equal times by when it was scheduled (or shuffled).

The scheduler, the mailroom and the flows of a simulator put work on it; the scheduler takes it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Protocol

Action = Callable[[Any, Any], None]
Work = tuple[Action, Any, Any]
_COMPACT_AT = 1024


class Ready(Protocol):
    """Work that is due now. `deque` gives it in the order of scheduling, `ShuffledTies` in a random one."""

    def append(self, work: Work, /) -> None:
        """Add work that is due now."""

    def popleft(self) -> Work:
        """Remove and return the next work."""

    def __len__(self) -> int:
        """The number of actions that are due."""


class Going(Protocol):
    """A run that is under way; `running` counts the programs that have not ended."""

    running: int


class ShuffledTies:
    """Gives simultaneous entries in an order drawn from a seed, to test that no promised result depends on it."""

    def __init__(self, seed: int) -> None:
        self._entries: list[Work] = []
        self._draw = random.Random(seed).randrange

    def append(self, work: Work, /) -> None:
        self._entries.append(work)

    def popleft(self) -> Work:
        entries = self._entries
        chosen = self._draw(len(entries))
        entries[chosen], entries[-1] = entries[-1], entries[chosen]
        return entries.pop()

    def __len__(self) -> int:
        return len(self._entries)


class EventQueue:
    """Virtual time. `now` moves only in `advance`; work is (action, first, second), done as `action(first, second)`.

    Timers are work that may be stale: where `is_stale(first, second)`, it is skipped and does not advance `now`.
    """

    __slots__ = ("_counter", "_heap", "_stale", "_timer", "now", "ready")

    def __init__(self, shuffle_ties: int | None) -> None:
        self.now = 0.0
        self.ready: Ready = deque() if shuffle_ties is None else ShuffledTies(shuffle_ties)
        self._heap: list[tuple[float, int, Work]] = []
        self._counter = 0
        self._timer: Action | None = None
        self._stale: Callable[[Any, Any], bool] = _never

    def timers(self, action: Action, is_stale: Callable[[Any, Any], bool]) -> None:
        """Declare that work with `action` is a timer."""
        self._timer, self._stale = action, is_stale

    def at(self, time: float, work: Work) -> None:
        """Schedule `work`; what is not in the future is due now, and what is at infinity is dropped. Raises ValueError for NaN."""
        if time <= self.now:
            self.ready.append(work)
            return
        if not time < inf:
            if time != inf:  # it would stand at the head of the heap for ever
                raise ValueError(f"{time} s is not a time at which something can happen.")
            return
        self._counter = counter = self._counter + 1
        heappush(self._heap, (time, counter, work))
        if not counter % _COMPACT_AT:
            self._compact()

    def advance(self, limit: float) -> float:
        """Move to the next time at which something is scheduled, but not beyond `limit`, and make ready what is due then."""
        heap, ready, timer = self._heap, self.ready, self._timer
        while heap and heap[0][0] <= limit:
            time, _, work = heappop(heap)
            if work[0] is timer and self._stale(work[1], work[2]):
                continue
            self.now = limit = time  # what else is due at this time follows
            ready.append(work)
        if self.now < limit < inf:
            self.now = limit
        return limit

    def drain(self, going: Going) -> None:
        """Do what is ready, until nothing is left or no program is running."""
        ready = self.ready
        while ready and going.running:
            action, first, second = ready.popleft()
            action(first, second)

    def __len__(self) -> int:
        """The number of actions that are scheduled, and not yet due."""
        return len(self._heap)

    def _compact(self) -> None:
        """Throw out stale timers: a run with generous timeouts leaves one behind at every step."""
        heap, timer, stale = self._heap, self._timer, self._stale
        if len(heap) >= _COMPACT_AT:
            heap[:] = [entry for entry in heap if entry[2][0] is not timer or not stale(entry[2][1], entry[2][2])]
            heapify(heap)


def _never(first: Any, second: Any) -> bool:
    return False
