"""Batches of a size that a controller sets, which may differ between workers and steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from polyrhythm.core import rng
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.deals import Deals, PassDeals
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Batch, Feed, Follow, Order, Perform, SampleStream, Source, unfollowed
from polyrhythm.shuffle.dealing import check, count
from polyrhythm.shuffle.global_shuffle import GlobalShuffle
from polyrhythm.shuffle.sharded import ShardBatches


@dataclass(frozen=True, slots=True)
class OwnPace:
    """Each worker goes through all samples in its own random order, in batches of the size that a controller sets (DLion; HPDC 2021).

    An epoch has as many steps as with the composed batch size: P workers whose batches add up to P times that see as many samples in it
    as there are, some of them twice and others not. Streams, and sources that divide themselves, are divided as by GlobalShuffle, in
    batches of the composed size. A resumed run continues its order as if all batches had had the composed size. Where workers leave and
    join, the others continue their own orders, for as many steps as the samples need that no worker's batches have counted.
    """

    takes: ClassVar = frozenset({ControlledSetting.BATCH})

    @property
    def weighs(self) -> bool:
        return False

    @property
    def sends(self) -> bool:
        return False

    def feed(self, deals: Deals, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return _Drawn(deals, controls)

    def stream(self, stream: SampleStream, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        return GlobalShuffle().stream(stream, deals, batch_size, first)

    def sharded(self, source: ShardedSource, deals: Deals, totals: BackgroundSums, batch_size: int) -> ShardBatches:
        return GlobalShuffle().sharded(source, deals, totals, batch_size)

    def share(self, order: Order, deals: PassDeals, first: int = 0) -> Iterator[int]:
        return GlobalShuffle().share(order, deals, first)


class _Drawn:
    """Counts in `taken` the samples that have been used, over all permutations."""

    def __init__(self, deals: Deals, controls: Controls) -> None:
        self.deals = deals
        self.controls = controls
        self.taken = 0

    def count(self, source: Source, batch_size: int) -> int:
        return count(source, self.deals, batch_size)

    def epoch(self, source: Source, deals: PassDeals, batch_size: int, first: int = 0) -> Iterator[Batch]:
        check(source, deals.group, batch_size)
        samples = self._samples(source)
        for share in deals.shares(len(source.order), deals.size.rule(batch_size, source.drop_last), first):
            loading = deals.loading(share)
            for step in range(share.start, share.deal.count if share.stop is None else share.stop):
                size = max(1, round(self.controls.value(ControlledSetting.BATCH, batch_size)))
                part = list(islice(samples, size))
                self.taken += size
                yield from source.load([part], rng.derive(loading, "step", step))

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        self.taken = (number * self.count(source, batch_size) + batches) * batch_size

    def _samples(self, source: Source) -> Iterator[int]:
        """The samples from the current place on, permutation after permutation."""
        seed = rng.derive(self.deals.group.seed, "own pace", self._own)
        number, offset = divmod(self.taken, len(source.order))
        while True:
            yield from source.order.indices(seed, number)[offset:]
            number, offset = number + 1, 0

    @property
    def _own(self) -> int:
        """The number in the worker's name: its rank, as long as nobody has left."""
        return rank_of(self.deals.group.members[self.deals.group.rank])
