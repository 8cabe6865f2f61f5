"""A new permutation of all samples in every epoch, dealt out in disjoint shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import ControlledSetting, Controls
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Batch, Feed, Follow, Order, Perform, Source, Stream, unfollowed
from polyrhythm.errors import DataError
from polyrhythm.shuffle.dealing import check_size, count, loading, parts, reading
from polyrhythm.shuffle.sharded import ShardBatches


@dataclass(frozen=True, slots=True)
class GlobalShuffle:
    """One permutation per epoch, the same at all workers; batch t of worker r is the r-th part of the t-th P · b samples.

    So P workers together see in step t what one worker with a batch of P · b would see (Goyal et al., 2017, section 2.3). The remainder is
    distributed evenly; fewer than P samples an epoch are left out. Data with an order of their own (a loader without shuffling, a stream)
    keep that order.
    """

    takes: ClassVar[frozenset[ControlledSetting]] = frozenset()

    @property
    def sends(self) -> bool:
        return False

    def feed(self, group: Group, port: Port, perform: Perform, controls: Controls, follow: Follow = unfollowed) -> Feed:
        """One worker's feed of one data set."""
        return _Dealt(group)

    def stream(self, stream: Stream, group: Group, number: int, batch_size: int) -> Iterator[Batch]:
        """One worker's batches of an epoch: every worker reads the whole stream, and takes its part of each P · b samples.

        The stream draws the same numbers from global generators at every worker, and does not change the random numbers of the training.
        """
        check_size(batch_size)
        seed = reading(group, number)
        rounds = _rounds(stream.elements(seed), group.size * batch_size, rng.Apart(seed))
        read = dealt = 0
        for samples in rounds:
            read += len(samples)
            size = len(samples) // group.size
            if size == 0 or (size < batch_size and stream.drop_last):
                break
            dealt += size
            yield stream.batch(samples[group.rank * size : (group.rank + 1) * size])
        if dealt == 0:
            raise DataError(_too_short(read, group, batch_size, stream.drop_last))

    def sharded(self, source: ShardedSource, group: Group, totals: BackgroundSums, batch_size: int) -> ShardBatches:
        """Batches of the source's own shards; the source decides which samples are in them."""
        return ShardBatches(source, group, totals, batch_size)

    def share(self, order: Order, group: Group, number: int) -> Sequence[int]:
        """Every P-th sample, so that batch t of all workers together is the t-th P · b samples, for any b."""
        return order.indices(group.seed, number)[group.rank : len(order) - len(order) % group.size : group.size]


def _rounds(elements: Iterator[Any], size: int, drawing: rng.Apart) -> Iterator[list[Any]]:
    """`size` elements at a time; random numbers during a read are drawn from `drawing`."""
    while True:
        with drawing:
            samples = list(islice(elements, size))
        if not samples:
            return
        yield samples


class _Dealt:
    def __init__(self, group: Group) -> None:
        self.group = group

    def count(self, source: Source, batch_size: int) -> int:
        return count(source, self.group, batch_size)

    def epoch(self, source: Source, number: int, batch_size: int) -> Iterator[Batch]:
        yield from source.load(parts(source, self.group, number, batch_size), loading(self.group, number))

    def skip(self, source: Source, number: int, batch_size: int, batches: int) -> None:
        return None  # every epoch is drawn anew


def _too_short(read: int, group: Group, batch_size: int, drop_last: bool) -> str:
    if read == 0:
        return (
            "The stream is empty, so there is nothing to train on: check how it was opened. An iterator or a generator can be read only "
            "once: give an IterableDataset, or make it anew for each epoch."
        )
    if drop_last and read >= group.size:
        return (
            f"drop_last leaves no batch of a stream of {read} samples, which are fewer than {batch_size} for each of {group.size} "
            f"workers: take a smaller batch_size, or leave drop_last out."
        )
    return f"A stream of {read} samples cannot be sharded over {group.size} workers: use at most {read} workers, or more data."
