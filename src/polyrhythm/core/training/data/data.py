"""The samples of a worker: whole batches, a sampler for the user's own loader, or a share of any iterable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch.utils.data import DataLoader, IterableDataset, Sampler

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import Controls
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Feed, Follow, Order, Perform, ShardFeed, Shuffle
from polyrhythm.core.settings import shown
from polyrhythm.core.training.callers import refuse_counters, warn_user
from polyrhythm.core.training.data.data_request import Begin, DataRequest, facts_of
from polyrhythm.core.training.data.loader import LoaderSource
from polyrhythm.core.training.data.sampling import Listed, Permuted, ShareSampler, order_of
from polyrhythm.core.training.data.shards import LoadedShards, sharded
from polyrhythm.core.training.data.source import Sources, Streams, parts_of, source_of, stream_of
from polyrhythm.core.training.data.stream import DEFAULT_BATCH_SIZE, LoaderStream, PlainStream, StreamShard
from polyrhythm.core.training.loops import DataFacts
from polyrhythm.core.training.numbers import holds, is_whole, whole
from polyrhythm.core.training.position import DataPosition, Skip
from polyrhythm.errors import DataError, UnshardedWarning

Drawn = Callable[[DataFacts, bool], Callable[[], None]]
"""Called when a batch is drawn, with facts about its data and True for the first of a pass; the result is called at the next draw."""


class StreamBatches:
    """A worker's batches of data without a length: an epoch each time it is iterated."""

    def __init__(self, epoch: Callable[[], Iterator[Any]]) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        return self._epoch()


class Batches:
    """A worker's batches of a data set: an epoch each time it is iterated, `len()` batches long at every worker."""

    def __init__(self, epoch: Callable[[], Iterator[Any]], length: int) -> None:
        self._epoch = epoch
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return self._epoch()


class Data:
    """One worker's access to samples. `count` is called with the samples of the next step; `used` is whether any access was used.

    The owner may replace `drawn`, which checks what is done with batches.
    """

    def __init__(
        self,
        shuffle: Shuffle,
        group: Group,
        totals: BackgroundSums,
        count: Callable[[int], None],
        position: DataPosition,
        controls: Controls,
        follow: Follow,
    ) -> None:
        self.used = False
        self.drawn: Drawn = _unwatched
        self.position = position
        self._shuffle = shuffle
        self._group = group
        self._count = count
        self._controls = controls
        self._follow = follow
        self._feeds: list[tuple[tuple[Any, ...], Feed]] = []
        self._totals = totals
        self._loaded: WeakKeyDictionary[DataLoader[Any], LoadedShards] = WeakKeyDictionary()
        self._sources: WeakKeyDictionary[DataLoader[Any], LoaderSource | LoaderStream] = WeakKeyDictionary()

    def batches(self, wanted: DataRequest, port: Port, perform: Perform) -> Batches | StreamBatches:
        """This worker's batches for a call of `Worker.batches`."""
        size = wanted.batch_size
        if size is not None and not is_whole(size):
            raise DataError(f"batch_size={shown(size)} is not a whole number: give the number of samples, 1 or more.")
        if (divided := self._shards(wanted)) is not None:
            shards, size = divided
            epoch = partial(self._counted, facts_of(wanted.data, size), wanted.limited(shards.epoch), _nothing)
            return _iterable(epoch, shards.count(), wanted)
        source = self._source(wanted.data)
        size = _size(source, wanted.batch_size)
        if isinstance(source, (PlainStream, LoaderStream)):
            begin = wanted.limited(lambda number, _: self._shuffle.stream(source, self._group, number, size))
            skip = partial(_read, begin) if source.once else _nothing
            self.position.sources += [wanted.data] if source.once else []
            return _iterable(partial(self._counted, facts_of(wanted.data, size), begin, skip), None, wanted)
        feed = self._feed(wanted.data, port, perform)
        count = feed.count(source, size)  # refuses data that cannot be sharded
        begin = wanted.limited(lambda number, _: feed.epoch(source, number, size))
        epoch = partial(self._counted, facts_of(wanted.data, size), begin, lambda number, taken: feed.skip(source, number, size, taken))
        return _iterable(epoch, count, wanted)

    def sampler(self, dataset: Any, shuffle: bool, counts: bool) -> ShareSampler:
        """This worker's sampler for a call of `Worker.sampler`."""
        if not isinstance(dataset, Sized):
            raise DataError(f"worker.sampler was given {shown(dataset)}, which has no length: give a map-style data set, or a sampler.")
        shuffle, counts = holds("worker.sampler", shuffle), holds("worker.sampler", counts)
        length, workers = len(dataset), self._group.size
        if length < workers:
            raise DataError(f"{length} samples cannot be sharded over {workers} workers: use fewer workers, or more data.")
        order: Order = order_of(dataset) if isinstance(dataset, Sampler) else Permuted(length) if shuffle else Listed(range(length))
        count = self._count if counts else _uncounted
        return ShareSampler(lambda number: self._shuffle.share(order, self._group, number), length // workers, count)

    def shard(self, iterable: Iterable[Any]) -> StreamShard:
        """This worker's elements of `iterable`, for a call of `Worker.shard`."""
        if not isinstance(iterable, Iterable) and not hasattr(type(iterable), "__getitem__"):
            raise DataError(f"worker.shard was given {shown(iterable)}, which cannot be iterated: give files, batches or samples.")
        self.used = True
        return StreamShard(iterable, self._group)

    def warn_if_unused(self) -> None:
        """Warn once, at worker 0, if a step is taken and no sample came through the worker."""
        if self.used or self._group.size == 1:
            return
        self.used = True
        if self._group.is_first:
            warn_user(
                f"optimizer.step() was called, but no sample came through the worker, so that all {self._group.size} workers may be "
                f"training on the same data: iterate worker.batches(loader), or give your own DataLoader sampler=worker.sampler(dataset); "
                f"if each worker has its own data, count the samples of a step with worker.count(n).",
                UnshardedWarning,
            )

    def numbered(self, batches: Any, start: int) -> Iterator[tuple[int, Any]]:
        """The batches with their numbers from `start`, for a call of `Worker.enumerate`."""
        if not isinstance(batches, (Batches, StreamBatches)):
            raise DataError(f"worker.enumerate was given a {type(batches).__name__}: give it what worker.batches(...) returns.")
        first = whole("worker.enumerate was given start =", start, "the number of the first batch, a whole number")
        return self._numbered(batches, first)

    def _numbered(self, batches: Batches | StreamBatches, first: int) -> Iterator[tuple[int, Any]]:
        for batch in batches:
            yield first + self.position.number(), batch

    def close(self) -> None:
        """End the processes that persist between epochs."""
        for source in (*self._sources.values(), *self._loaded.values()):
            source.close()

    def _counted(self, facts: DataFacts, begin: Begin, skip: Skip) -> Iterator[Any]:
        """The batches of the next epoch; its number is taken when the first batch is requested."""
        this: list[Any] = [None]
        made = self._drawn(this, facts, begin, skip)
        this[0] = ref(made)
        return made

    def _drawn(self, this: list[Any], facts: DataFacts, begin: Begin, skip: Skip) -> Iterator[Any]:
        first = True
        for samples, batch in self.position.follow(facts, begin, skip):
            if self.position.joined:
                self.position.joined = False
                if self._group.is_first:  # the others have the same code, and the search for holders of an object takes a while
                    refuse_counters(this[0]())
            self._count(samples)
            used, first = self.drawn(facts, first), False
            yield batch
            used()

    def _shards(self, wanted: DataRequest) -> tuple[ShardFeed, int] | None:
        """The feed of data that divide themselves, and the batch size; None for other data. The source of a loader is kept with it."""
        data, size = wanted.data, wanted.batch_size
        source: ShardedSource | None
        if isinstance(data, DataLoader):
            source = self._loaded.get(data)
            if source is None and isinstance(data.dataset, ShardedSource):
                source = self._loaded[data] = LoadedShards(data)
            size = size or getattr(source, "batch_size", None)
        else:
            source = sharded(data)
        if source is None:
            return None
        size = DEFAULT_BATCH_SIZE if size is None else size
        return self._shuffle.sharded(source, self._group, self._totals, size), size

    def _source(self, data: Any) -> Sources | Streams:
        """The source or stream of `data`; that of a loader is kept as long as the loader, for persistent processes (persistent_workers)."""
        if not isinstance(data, DataLoader):
            return stream_of(data) or source_of(data)
        source = self._sources.get(data)
        if source is None:
            source = self._sources[data] = LoaderStream(data) if isinstance(data.dataset, IterableDataset) else LoaderSource(data)
        return source

    def _feed(self, data: Any, port: Port, perform: Perform) -> Feed:
        """The feed of `data`, which continues where it was when the same data were given before."""
        parts = parts_of(data)
        for group, (held, feed) in enumerate(self._feeds):
            if len(held) == len(parts) and all(a is b for a, b in zip(held, parts, strict=True)):
                self._feeds.append(self._feeds.pop(group))  # the last to be used is the last to be forgotten
                return feed
        feed = self._shuffle.feed(self._group, port, perform, self._controls, self._follow)
        self._feeds = [*self._feeds[-_FEEDS + 1 :], (parts, feed)]
        return feed


def _unwatched(facts: DataFacts, first: bool) -> Callable[[], None]:
    """Check nothing: no model is trained on the batch."""
    return lambda: None


def _uncounted(samples: int) -> None:
    """Count nothing: the code that draws the samples counts them."""


def _nothing(number: int, taken: int) -> None:
    """Skip nothing: streams and shards are read from the beginning in every epoch."""


def _read(begin: Begin, number: int, taken: int) -> None:
    """Skip what earlier passes took by reading it: an iterator gives each element only once."""
    for _ in islice(begin(number, 0), taken):
        pass


def _iterable(epoch: Callable[[], Iterator[Any]], count: int | None, wanted: DataRequest) -> Batches | StreamBatches:
    if count is None:
        return StreamBatches(epoch)
    if wanted.steps is not None and wanted.steps > count:
        raise DataError(f"steps={wanted.steps} is more than the {count} batches of one pass through these data: give at most {count}.")
    return Batches(epoch, count if wanted.steps is None else wanted.steps)


def _size(source: Sources | Streams, given: int | None) -> int:
    if given is not None and source.whole:
        raise DataError(
            f"batch_size={given} was given with a DataLoader that has batch_size=None, whose data set yields whole batches: leave it out, "
            f"or give the DataLoader a batch_size."
        )
    return source.batch_size if given is None else given


_FEEDS = 8
"""Data sets that keep their position, at most: a script that makes new ones all the time must not keep the old ones in memory."""
