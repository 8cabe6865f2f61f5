"""The samples of a worker: whole batches, a sampler for the user's own loader, or a share of any iterable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import partial
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch.utils.data import DataLoader, IterableDataset, Sampler

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import Controls
from polyrhythm.core.protocols.deal_rules import BatchSize, PerWorker
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.protocols.sharded import BackgroundSums, ShardedSource
from polyrhythm.core.protocols.shuffle import Feed, Follow, Order, Perform, ShardFeed, Shuffle
from polyrhythm.core.settings import shown
from polyrhythm.core.training.callers import refuse_counters, warn_user
from polyrhythm.core.training.data.data_request import DataRequest, PassBatches, facts_of
from polyrhythm.core.training.data.draws import ShareDraws
from polyrhythm.core.training.data.loader import LoaderSource
from polyrhythm.core.training.data.sampling import Listed, Permuted, ShareSampler, order_of
from polyrhythm.core.training.data.shards import LoadedShards, sharded
from polyrhythm.core.training.data.source import Sources, Streams, parts_of, source_of, stream_of
from polyrhythm.core.training.data.stream import DEFAULT_BATCH_SIZE, LoaderStream, PlainStream, StreamShard
from polyrhythm.core.training.loops import DataFacts, used
from polyrhythm.core.training.numbers import holds, is_whole, whole
from polyrhythm.core.training.position import DataPosition, Skip
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import DataError, UnshardedWarning

Drawn = Callable[[DataFacts, bool], Callable[[], None]]
"""Called when a batch is drawn, with facts about its data and True for the first of a pass; the result is called at the next draw."""
Count = Callable[[], int | None]


class StreamBatches:
    """A worker's batches of data without a length: an epoch each time it is iterated."""

    def __init__(self, epoch: Callable[[], Iterator[Any]]) -> None:
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        return self._epoch()


class Batches:
    """A worker's batches of a data set: an epoch each time it is iterated, `len()` batches long at every worker.

    The length is that of a whole epoch of the present workers; where they change, that of the epoch under way is another. `feed` has them.
    """

    def __init__(self, epoch: Callable[[], Iterator[Any]], length: Callable[[], int], feed: Feed | None = None) -> None:
        self.feed = feed
        self._epoch = epoch
        self._length = length

    def __len__(self) -> int:
        return self._length()

    def __iter__(self) -> Iterator[Any]:
        return self._epoch()


class Data:
    """One worker's access to samples. `count` is called with the samples of the next step; it was `touched` if any access was used.

    The owner may replace `drawn`, which checks what is done with batches. Where the workers change, `used` of each before the change and
    `regroup` deal what nobody has used to those after it;
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
        size: BatchSize = PerWorker(),  # noqa: B008
    ) -> None:
        self.touched = False
        self.drawn: Drawn = _unwatched
        self.position = position
        self._shuffle = shuffle
        self._deals = position.deals
        self._deals.begin(group, size)
        self._draws: list[ShareDraws] = position.draws
        self._ready: list[ShareDraws] = []
        self._count = count
        self._controls, self._follow = controls, follow
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
            epoch = partial(self._counted, facts_of(wanted.data, size), wanted.passes(shards.epoch), _nothing)
            return _iterable(epoch, shards.count, wanted)
        source = self._source(wanted.data)
        size = _size(source, wanted.batch_size)
        if isinstance(source, (PlainStream, LoaderStream)):
            begin = wanted.passes(lambda deals, _, first: self._shuffle.stream(source, deals, size, first))
            skip = partial(self._read, begin) if source.once else _nothing
            self.position.sources += [wanted.data] if source.once else []
            return _iterable(partial(self._counted, facts_of(wanted.data, size), begin, skip), _unknown, wanted)
        feed = self._feed(wanted.data, port, perform)
        (count := partial(feed.count, source, size))()  # refuses data that cannot be sharded
        begin = wanted.passes(lambda deals, _, first: feed.epoch(source, deals, size, first))
        epoch = partial(self._counted, facts_of(wanted.data, size), begin, lambda number, taken: feed.skip(source, number, size, taken))
        return _iterable(epoch, count, wanted, feed)

    def sampler(self, dataset: Any, shuffle: bool, counts: bool) -> ShareSampler:
        """This worker's sampler for a call of `Worker.sampler`."""
        if not isinstance(dataset, Sized):
            raise DataError(f"worker.sampler was given {shown(dataset)}, which has no length: give a map-style data set, or a sampler.")
        shuffle, counts = holds("worker.sampler", shuffle), holds("worker.sampler", counts)
        length, workers = len(dataset), self._deals.group.size
        if length < workers:
            raise DataError(f"{length} samples cannot be sharded over {workers} workers: use fewer workers, or more data.")
        order: Order = order_of(dataset) if isinstance(dataset, Sampler) else Permuted(length) if shuffle else Listed(range(length))
        count = self._count if counts else _uncounted
        return ShareSampler(lambda deals, first: self._shuffle.share(order, deals, first), length, self._drawing(), count)

    def shard(self, iterable: Iterable[Any]) -> StreamShard:
        """This worker's elements of `iterable`, for a call of `Worker.shard`."""
        if not isinstance(iterable, Iterable) and not hasattr(type(iterable), "__getitem__"):
            raise DataError(f"worker.shard was given {shown(iterable)}, which cannot be iterated: give files, batches or samples.")
        self.touched = True
        return StreamShard(iterable, self._drawing())

    def used(self) -> StateTree:
        """What this worker has used of the passes under way, and the batches that it holds for a step still to come."""
        return {**used(self.position.loops, self._deals), "draws": [each.used() for each in self._draws]}

    def regroup(self, group: Group, before: Mapping[str, StateTree], donor: str | None = None) -> None:
        """Deal to `group` what nobody has used or holds, from the next request on; all members call it with the same `before`.

        `before` has each former member's `used` in the order of ranks, `used_at` of lost ones. Those who have joined have the position of
        `donor`, by default the first that has stayed.
        """
        donor = donor or next(name for name in group.members if name in before)
        self._deals.regroup(group, before, donor, {loop.number: loop.taken for loop in self.position.loops if not loop.over})
        if group.members[group.rank] not in before:
            self._ready = [ShareDraws(Deals(group), each) for each in before[donor].get("draws", ())]
            self._draws += self._ready
        for place, each in enumerate(self._draws):
            each.deals.regroup(group, _drawn_by(before, place), donor)

    def _drawing(self) -> ShareDraws:
        """The draws of the next sampler or shard: of a worker that has joined, those that continue where its donor is."""
        if not self._ready:
            self._ready = [ShareDraws(Deals(self._deals.group))]
            self._draws += self._ready
        return self._ready.pop(0)

    def warn_if_unused(self) -> None:
        """Warn once, at worker 0, if a step is taken and no sample came through the worker."""
        group = self._deals.group
        if self.touched or group.size == 1:
            return
        self.touched = True
        if group.is_first:
            warn_user(
                f"optimizer.step() was called, but no sample came through the worker, so that all {group.size} workers may be "
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

    def _counted(self, facts: DataFacts, begin: PassBatches, skip: Skip) -> Iterator[Any]:
        """The batches of the next epoch; its number is taken when the first batch is requested."""
        this: list[Any] = [None]
        made = self._drawn(this, facts, begin, skip)
        this[0] = ref(made)
        return made

    def _drawn(self, this: list[Any], facts: DataFacts, begin: PassBatches, skip: Skip) -> Iterator[Any]:
        first = True
        for samples, batch in self.position.follow(facts, begin, skip):
            if self.position.joined:
                self.position.joined = False
                if self._deals.group.is_first:  # the others have the same code, and the search for holders of an object takes a while
                    refuse_counters(this[0]())
            self._count(samples)
            used, first = self.drawn(facts, first), False
            yield batch
            used()

    def _read(self, begin: PassBatches, number: int, taken: int) -> None:
        """Skip what earlier passes took by reading it: an iterator gives each element only once."""
        for _ in islice(begin(self._deals.plain(number), 0), taken):
            pass

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
        return self._shuffle.sharded(source, self._deals, self._totals, size), size

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
        feed = self._shuffle.feed(self._deals, port, perform, self._controls, self._follow)
        self._feeds = [*self._feeds[-_FEEDS + 1 :], (parts, feed)]
        return feed


def _unwatched(facts: DataFacts, first: bool) -> Callable[[], None]:
    """Check nothing: no model is trained on the batch."""
    return lambda: None


def _uncounted(samples: int) -> None:
    """Count nothing: the code that draws the samples counts them."""


def _nothing(number: int, taken: int) -> None:
    """Skip nothing: streams and shards are read from the beginning in every epoch."""


def _unknown() -> None:
    """The number of batches of a stream."""


def _drawn_by(before: Mapping[str, StateTree], place: int) -> dict[str, StateTree]:
    """What each former member has drawn from its sampler or shard of that place; nothing, where it has not made it."""
    none = {"begun": 0, "since": 0, "members": [*before], "passes": [], "ahead": None}
    return {name: (tree.get("draws", [])[place : place + 1] or [none])[0] for name, tree in before.items()}


def _iterable(epoch: Callable[[], Iterator[Any]], count: Count, wanted: DataRequest, feed: Feed | None = None) -> Batches | StreamBatches:
    if (most := count()) is None:
        return StreamBatches(epoch)
    if wanted.steps is not None and wanted.steps > most:
        raise DataError(f"steps={wanted.steps} is more than the {most} batches of one pass through these data: give at most {most}.")
    return Batches(epoch, lambda: min(count() or 0, wanted.steps or sys.maxsize), feed)


def _size(source: Sources | Streams, given: int | None) -> int:
    if given is not None and source.whole:
        raise DataError(
            f"batch_size={given} was given with a DataLoader that has batch_size=None, whose data set yields whole batches: leave it out, "
            f"or give the DataLoader a batch_size."
        )
    return source.batch_size if given is None else given


_FEEDS = 8
"""Data sets that keep their position, at most: a script that makes new ones all the time must not keep the old ones in memory."""
