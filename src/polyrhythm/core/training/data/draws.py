"""The passes of a sampler or a shard, whose items a loop or loader of the user's draws, perhaps ahead of the steps that use them.

`Data` makes one for each `worker.sampler` and `worker.shard`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from polyrhythm.core.protocols.deals import Deals, PassDeals, continued
from polyrhythm.core.trees import StateTree

T = TypeVar("T")


class ShareDraws:
    """Counts what is drawn and not used: the items since the last step, and those that were drawn ahead before the first.

    How far a loader with processes draws ahead is found at its second step; until then nothing counts as used. A worker that has joined
    continues in the pass in which its `donor` is, by what that has used.
    """

    def __init__(self, deals: Deals, donor: StateTree = None) -> None:
        self.deals = deals
        self.number = 0
        self._base = self._drawn = self._fresh = self._ahead = self._steps = 0
        self._under_way = False
        if donor is not None:
            self.number = donor["begun"] - any(number == donor["begun"] - 1 for number, *_ in donor["passes"])
            if donor["ahead"] is not None:
                self._ahead, self._steps = donor["ahead"], _KNOWN

    def items(self, number: int, begin: Callable[[PassDeals, int], Iterator[T]], empty: T) -> Iterator[T]:
        """The items of pass `number`; `begin` makes those from a number on."""
        deals, self.number, self._under_way = self.deals.of(number), number + 1, True
        self._drawn = self._fresh = 0
        if self._steps < _KNOWN:
            self._ahead = self._steps = 0
        base = self._base = deals.before
        try:
            for item in continued(lambda deals, _, first: begin(deals, max(first, base)), deals, 0, empty):
                self._drawn += 1
                self._fresh += 1
                yield item
        finally:
            self._under_way = False
            self.deals.end(number)

    def stepped(self) -> None:
        """A step was taken."""
        self._steps += 1
        if self._steps == 1:
            self._ahead = self._fresh
        elif self._steps == _KNOWN:
            self._ahead = max(0, self._ahead - self._fresh)
        self._fresh = 0

    def used(self) -> StateTree:
        """What was used of the pass under way, and what is drawn for steps to come."""
        held = min(self._drawn, self._fresh + self._ahead)
        passes = [(self.number - 1, self._base + self._drawn, held)] if self._under_way else []
        return {**self.deals.used(self.number, passes), "ahead": self._ahead if self._steps >= _KNOWN else None}


_KNOWN = 2
"""The step at which it is known how far a loader draws ahead."""
