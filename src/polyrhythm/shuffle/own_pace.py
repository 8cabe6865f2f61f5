"""Batches of a size that a controller sets, which may differ between workers and steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Batch, Feed, Follow, Order, Perform, Source, Stream, unfollowed
from polyrhythm.shuffle.dealing import count, loading
from polyrhythm.shuffle.global_shuffle import GlobalShuffle
from polyrhythm.shuffle.sharded import ShardBatches


@dataclass(frozen=True, slots=True)
class OwnPace:
    """Each worker goes through all samples in its own random order, in batches of the size that a controller sets (DLion; HPDC 2021).

    An epoch has as many steps as with the composed batch size: P workers whose batches add up to P times that see as many samples in it
    as there are, some of them twice and others not. Streams, and sources that divide themselves, are divided as by GlobalShuffle, in
    batches of the composed size. A resumed run continues its order as if all batches had had the composed size.
    """

    takes: ClassVar = frozenset({ControlledSetting.BATCH})

    @property
    def sends(self) -> bool:
        return False

    def feed(self, group: Group, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return _Drawn(group, controls)

    def stream(self, stream: Stream, group: Group, number: int, batch_size: int) -> Iterator[Batch]:
        return GlobalShuffle().stream(stream, group, number, batch_size)

    def sharded(self, source: ShardedSource, group: Group, totals: BackgroundSums, batch_size: int) -> ShardBatches:
        return GlobalShuffle().sharded(source, group, totals, batch_size)

    def share(self, order: Order, group: Group, number: int) -> Sequence[int]:
        return GlobalShuffle().share(order, group, number)


class _Drawn:
    """Counts in `taken` the samples that have been used, over all permutations."""

    def __init__(self, group: Group, controls: Controls) -> None:
        self.group = group
        self.controls = controls
        self.taken = 0

    def count(self, source: Source, batch_size: int) -> int:
        return count(source, self.group, batch_size)

    def epoch(self, source: Source, number: int, batch_size: int) -> Iterator[Batch]:
        samples = self._samples(source)
        for step in range(self.count(source, batch_size)):
            size = max(1, round(self.controls.value(ControlledSetting.BATCH, batch_size)))
            part = list(islice(samples, size))
            self.taken += size
            yield from source.load([part], rng.derive(loading(self.group, number), "step", step))

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        self.taken = (number * self.count(source, batch_size) + batches) * batch_size

    def _samples(self, source: Source) -> Iterator[int]:
        """The samples from the current place on, permutation after permutation."""
        number, offset = divmod(self.taken, len(source.order))
        while True:
            yield from source.order.indices(rng.derive(self.group.seed, "own pace", self.group.rank), number)[offset:]
            number, offset = number + 1, 0
