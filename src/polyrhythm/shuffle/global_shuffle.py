"""A new permutation of all samples in every epoch, dealt out in disjoint shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.deal import chosen
from polyrhythm.core.protocols.deal_rules import BatchSize, InRounds
from polyrhythm.core.protocols.deals import Deals, PassDeals
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Batch, Feed, Follow, Order, Perform, SampleStream, Source, unfollowed
from polyrhythm.shuffle.dealing import check
from polyrhythm.shuffle.sharded import ShardBatches
from polyrhythm.shuffle.streaming import dealt_stream


@dataclass(frozen=True, slots=True)
class GlobalShuffle:
    """One permutation per epoch, the same at all workers; batch t of worker r is the r-th part of the t-th P · b samples.

    So P workers together see in step t what one worker with a batch of P · b would see (Goyal et al., 2017, section 2.3). The remainder is
    distributed evenly; fewer than P samples an epoch are left out. Data with an order of their own (a loader without shuffling, a stream)
    keep that order.
    """

    takes: ClassVar[frozenset[ControlledSetting]] = frozenset()

    @property
    def weighs(self) -> bool:
        return False

    @property
    def sends(self) -> bool:
        return False

    def feed(self, deals: Deals, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return PermutedFeed(deals)

    def stream(self, stream: SampleStream, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        """One worker's batches of a pass: every worker reads the whole stream, and takes its part of each P · b samples.

        The stream draws the same numbers from global generators at every worker, and does not change the random numbers of the training.
        """
        return dealt_stream(stream, deals, batch_size, first)

    def sharded(self, source: ShardedSource, deals: Deals, totals: BackgroundSums, batch_size: int) -> ShardBatches:
        """Batches of the source's own shards; the source decides which samples are in them."""
        return ShardBatches(source, deals, totals, batch_size)

    def share(self, order: Order, deals: PassDeals, first: int = 0) -> Iterator[int]:
        """Every P-th sample, so that batch t of all workers together is the t-th P · b samples, for any b."""
        indices = order.indices(deals.group.seed, deals.number)
        for share in deals.shares(len(order), InRounds(1), first):
            for batch in islice(share.deal.batches(share.rank), share.start, share.stop):
                yield from chosen(indices, batch.spans)


class PermutedFeed:
    """A feed of the batches of a permutation, whose sizes are by `size`, or as the deals say."""

    def __init__(self, deals: Deals, size: BatchSize | None = None) -> None:
        self.deals, self._size = deals, size

    def count(self, source: Source, batch_size: int) -> int:
        check(source, self.deals.group, batch_size)
        rule = (self._size or self.deals.size).rule(batch_size, source.drop_last)
        return rule.count(len(source.order), self.deals.group.size)

    def epoch(self, source: Source, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        check(source, deals.group, batch_size)
        order = source.order.indices(deals.group.seed, deals.number)
        rule = (self._size or deals.size).rule(batch_size, source.drop_last)
        for share in deals.shares(len(order), rule, first):
            if batches := share.batches():
                loaded = source.load([chosen(order, each.spans) for each in batches], deals.loading(share))
                for each, batch in zip(batches, loaded, strict=True):
                    deals.weight = each.weight
                    yield batch

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        return None  # every epoch is drawn anew
