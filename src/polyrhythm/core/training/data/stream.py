"""Data without a length, read once an epoch by every worker; and one worker's share of anything that can be iterated.

`Data` makes streams for `worker.batches`; `worker.shard` returns a `StreamShard`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, default_collate, get_worker_info

from polyrhythm.core.protocols.deal_rules import AsRead, InRounds
from polyrhythm.core.protocols.deals import PassDeals
from polyrhythm.core.protocols.shuffle import Batch
from polyrhythm.core.protocols.stream_rounds import StreamReader, read_rounds
from polyrhythm.core.torch_private.one_process import no_loader, pinned
from polyrhythm.core.training.data.draws import ShareDraws
from polyrhythm.core.training.data.loader import Loads, length, refuse_own_ways
from polyrhythm.errors import DataError

DEFAULT_BATCH_SIZE = 32
"""The batch size of data without one."""


class PlainStream:
    """An iterable, iterated anew each epoch; an iterator has one epoch only."""

    batch_size = DEFAULT_BATCH_SIZE
    drop_last = False
    whole = False

    def __init__(self, data: Iterable[Any]) -> None:
        self.data = data

    @property
    def once(self) -> bool:
        """True if a pass continues where the one before stopped, as with an iterator."""
        return isinstance(self.data, Iterator)

    def elements(self, seed: int) -> Iterator[Any]:
        return alone(self.data)

    def batch(self, samples: Sequence[Any]) -> Batch:
        return len(samples), default_collate(list(samples))


class LoaderStream:
    """The elements of a DataLoader over an IterableDataset, in the order in which the loader's processes give them."""

    once = False

    def __init__(self, loader: DataLoader[Any]) -> None:
        refuse_own_ways(loader)
        self.loads = Loads(loader)
        self.drop_last = loader.drop_last
        self.batch_size, self.whole = loader.batch_size or 1, loader.batch_size is None
        self.collate = loader.collate_fn
        collate = self.collate if self.whole else _as_they_are
        self.copy = self.loads.copy(loader.dataset, batch_size=loader.batch_size, collate_fn=collate)

    def elements(self, seed: int) -> Iterator[Any]:
        """One pass: elements travel from the loader's processes in its batches, and are collated when they have been dealt out."""
        with self.loads.one_pass(self.copy, seed) as chunks:
            for chunk in chunks:
                yield from [chunk] if self.whole else chunk

    def close(self) -> None:
        """End the processes that persist between epochs."""
        self.loads.end(self.copy)

    def batch(self, samples: Sequence[Any]) -> Batch:
        """`samples`, collated as the loader would; one that is a batch already stays as it is."""
        if self.whole:
            return length(samples[0]), samples[0]
        batch = self.collate(list(samples))
        return len(samples), pinned(batch) if self.loads.options["pin_memory"] else batch


class StreamShard(IterableDataset[Any]):
    """One worker's elements of an iterable: one of each round, of as many elements as there are workers; an incomplete round is dropped.

    In the processes of a DataLoader the rounds are divided among these. Each then reads the whole iterable as if it were the only one,
    so that an iterable that divides itself among a loader's processes, as torch recommends, does not do so a second time. That workers have
    changed these processes notice when they are started anew.
    """

    def __init__(self, data: Iterable[Any], draws: ShareDraws) -> None:
        self.data = data
        self.draws = draws

    def __iter__(self) -> Iterator[Any]:
        here = get_worker_info()
        process, processes = (0, 1) if here is None else (here.id, here.num_workers)
        return islice(self.draws.items(self.draws.number, self._share, None), process, None, processes)

    def _share(self, deals: PassDeals, first: int) -> Iterator[Any]:
        rule = AsRead(InRounds(1))
        if deals.reading is None:
            deals.reading = StreamReader(lambda: (alone(self.data), no_loader), isinstance(self.data, Iterator))
        for share in deals.shares(deals.length, rule, first):
            for samples, _ in read_rounds(deals.reading, share, deals, rule):
                yield from samples


def alone(data: Iterable[Any]) -> Iterator[Any]:
    """The elements of `data`. Raises DataError if it is an iterator that another worker is reading, which would take elements away."""
    elements = iter(data)
    if elements is not data:
        yield from elements
        return
    with _reading(elements):
        yield from elements


@contextmanager
def _reading(elements: Iterator[Any]) -> Iterator[None]:
    if id(elements) in _READ:
        raise DataError(
            f"Two workers read from the same {type(elements).__name__}, so each would miss the elements that the other takes: create it in "
            f"the training function, once for each worker, or give an IterableDataset."
        )
    _READ.add(id(elements))
    try:
        yield
    finally:
        _READ.discard(id(elements))


_READ: set[int] = set()
"""Iterators that are being read in this process, where the simulator has all workers."""


def _as_they_are(samples: list[Any]) -> list[Any]:
    return samples
