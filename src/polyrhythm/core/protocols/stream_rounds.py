"""Reading of a stream in rounds, of which every worker reads all and takes its part.

Shuffles read streams for `worker.batches` so, and `worker.shard` any iterable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from polyrhythm.core.protocols.deal import Deal, DealRule, Spans, dealt
from polyrhythm.core.protocols.deals import DealtShare, PassDeals

OpenedStream = tuple[Iterator[Any], Callable[[], AbstractContextManager[None]]]
"""The elements of a stream from its beginning, and what is around each read of some of them."""


def read_rounds(reader: StreamReader, share: DealtShare, deals: PassDeals, rule: DealRule) -> Iterator[tuple[list[Any], float]]:
    """The samples of each batch, and its weight. All read each round as a whole, so that all notice the end in the same one."""
    deal, place = share.deal, share.start
    rounds = islice(zip(_rounds(deal), deal.batches(share.rank), strict=True), share.start, share.stop)
    for whole, batch in rounds:
        if not reader.reach((*reader.not_passed(whole), *batch.spans)):
            deals.length = reader.position
            break
        if samples := reader.get(batch.spans):
            yield samples, batch.weight
        place += 1
    else:
        return
    deal = dealt(deals.length, rule, deal.members, deals.ended[: share.change])
    for batch in islice(deal.batches(share.rank), place, share.stop):
        if samples := reader.get(batch.spans):
            yield samples, batch.weight


def _rounds(deal: Deal) -> Iterator[Spans]:
    """The positions of all members' batches in each round."""
    members = len(deal.members)
    several = [deal.batches(rank) for rank in ([*range(members)] if deal.behind else [0, members - 1])]
    for place, each in enumerate(zip(*several, strict=True)):
        if place < len(deal.behind):  # with what others hold: where they are lost, it is dealt anew
            yield tuple(sorted(span for batch in each for span in batch.spans))
        else:
            yield ((each[0].spans[0][0], each[-1].spans[-1][1]),)


class StreamReader:
    """Reads a stream, and keeps the elements since the beginning of the round that was read last."""

    def __init__(self, opened: Callable[[], OpenedStream], once: bool) -> None:
        self.opened = opened
        self.once = once
        self._open()

    def _open(self) -> None:
        self.elements, self.around = self.opened()
        self.position = 0
        self.kept: list[Any] = []

    def reach(self, spans: Spans) -> bool:
        """Read to the end of `spans`, in order, and keep all from their beginning on; False if the stream has ended before."""
        first, last = min(start for start, _ in spans), max(stop for _, stop in spans)
        if first < self.position - len(self.kept) and not self.once:
            self._open()
        with self.around():
            if first > self.position:
                self.position += sum(1 for _ in islice(self.elements, first - self.position))
                self.kept = []
            new = list(islice(self.elements, max(0, last - self.position)))
        self.kept = [*self.kept[max(0, first - self.position + len(self.kept)) :], *new]
        self.position += len(new)
        return self.position >= last

    def not_passed(self, spans: Spans) -> Spans:
        """Those of `spans` of which elements are kept, or still to come."""
        return tuple(span for span in spans if span[0] >= self.position - len(self.kept))

    def get(self, spans: Spans) -> list[Any]:
        """The elements at `spans`; fewer where they cannot be read any more."""
        passed = spans and min(spans)[0] < self.position - len(self.kept) and not self.once
        if passed or (spans and max(stop for _, stop in spans) > self.position):
            self.reach(spans)
        start = self.position - len(self.kept)
        return [self.kept[place - start] for first, last in spans for place in range(max(first, start), min(last, self.position))]
