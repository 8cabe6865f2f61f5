"""Random schedules of a clock table: who acts next, and which message arrives next, is drawn at every moment."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from polyrhythm.consistency import Bounded
from polyrhythm.core.tables.clock_table import ClockTable, Flushed


@dataclass(slots=True)
class _Worker:
    """`under_way` are its messages that have not arrived, in order, None the last; `merged` its clocks that are visible, in order."""

    name: str
    periods: int
    clock: int = 0
    under_way: deque[Flushed[int] | None] = field(default_factory=deque)
    merged: list[int] = field(default_factory=list)
    waits: bool = False
    ended: bool = False

    def act(self, draw: random.Random) -> None:
        """End a period, and perhaps wish to read; or be done."""
        if self.clock < self.periods:
            self.clock += 1
            self.under_way.append(Flushed(self.name, self.clock, self.clock))
            self.waits = draw.random() < 0.8
        elif not self.ended:
            self.ended = True
            self.under_way.append(None)


def violations(draw: random.Random, slack: int, workers: int) -> int:
    """Violations in one schedule: reads without an update that the bound promises, or without one's own, and updates that are not merged
    exactly once.

    Workers take 1 to 3 periods each, and not equally many.
    """
    crew = [_Worker(str(k), draw.randint(1, 3)) for k in range(workers)]
    by_name = {each.name: each for each in crew}
    table: ClockTable[int] = ClockTable(Bounded(slack), list(by_name))
    found = 0
    while not table.over:
        each = draw.choice(crew)
        if each.under_way and draw.random() < 0.5:
            message = each.under_way.popleft()
            table.end(each.name) if message is None else table.take(message)
            while group := table.next_group():
                for flush in group:
                    by_name[flush.sender].merged.append(flush.content)
        elif not each.waits:
            each.act(draw)
        elif not each.under_way and table.may_read(each.clock):  # a read comes after all that the reader has sent
            each.waits = False
            found += any(len(other.merged) < min(each.clock - slack, other.periods) for other in crew) + (len(each.merged) < each.clock)
    return found + sum(each.merged != list(range(1, each.periods + 1)) for each in crew)
