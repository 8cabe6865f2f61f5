"""Batches of data of which every worker reads its own shard: equally many at all workers, and no sample is lost.

Where the number of samples is known, nothing is sent. Where it is not, workers agree on each batch some batches ahead, so that nobody
waits; when the first shard has no full batch left, the samples that remain in the others are dealt out evenly over all workers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.deal import Spans, nsamples
from polyrhythm.core.protocols.deal_rules import InShares, share_of
from polyrhythm.core.protocols.deals import Deals, PassDeals
from polyrhythm.core.protocols.sharded import BackgroundSums, PendingSum, Rows, ShardedSource, ShardRequest
from polyrhythm.core.protocols.shuffle import Batch
from polyrhythm.errors import CheckpointError, DataError
from polyrhythm.shuffle.dealing import check_size
from polyrhythm.shuffle.rows import Reader, joined, length, packed, part, unpacked
from polyrhythm.shuffle.shard_parts import ShardPart, ShardShare, picked, shares_of

AHEAD = 2
"""The number of batches that workers agree on in advance: one worker may be that many steps ahead of another that reads the same source."""

_WORD = 8
_SIZES = 3
"""Figures about a worker's last samples: their bytes, 1 if there are more samples, and the words in which they are sent."""


@dataclass(frozen=True, slots=True)
class ShardBatches:
    """One worker's batches of one source."""

    source: ShardedSource
    deals: Deals
    totals: BackgroundSums
    batch_size: int

    def count(self) -> int | None:
        """The number of batches in an epoch, or None if it is unknown. Raises DataError for data that cannot be sharded."""
        check_size(self.batch_size)
        samples, workers = self.source.samples, self.deals.group.size
        if samples is None:
            return None
        if samples < workers:
            raise DataError(_too_short(samples, workers))
        if self.source.drop_last and samples < workers * self.batch_size:
            raise DataError(_no_full_batch(self.batch_size, workers))
        return InShares(self.batch_size, self.source.drop_last).count(samples, workers)

    def epoch(self, deals: PassDeals, taken: int, first: int = 0) -> Iterator[Batch]:
        """The batches of a pass from the number `first` on; of these the first `taken` are not used again, and may be empty."""
        known = self.count() is not None
        has_own = not deals.ended or deals.group.members[deals.group.rank] in deals.ended[0].members
        if taken and has_own and not self.source.repeats:
            raise CheckpointError(
                f"The checkpoint was written after {taken} batches of an epoch of a {type(self.source).__name__}, which does not repeat "
                "the order of its samples: resume from one that was written between two epochs, as worker.save() does there."
            )
        return self._known(deals, taken, first) if known else self._agreed(deals, first)

    def _known(self, deals: PassDeals, taken: int, first: int) -> Iterator[Batch]:
        assert self.source.samples is not None
        rule = InShares(self.batch_size, self.source.drop_last)
        reader = _SpanReader(self, deals, self.source.samples)
        for share in deals.shares(self.source.samples, rule, first):
            for batch in share.batches():
                if taken > 0:
                    taken -= 1
                    yield nsamples(batch.spans), None
                else:
                    yield nsamples(batch.spans), self.source.batch(reader.read(batch.spans))

    def _agreed(self, deals: PassDeals, first: int) -> Iterator[Batch]:
        size, group = self.batch_size, deals.group
        yield from ((size, None) for _ in range(first, deals.before + deals.held))
        reading = deals.reading = self._reading(deals)
        reader = reading.reader
        for _ in range(_most_held(deals) - deals.held):
            count = min(size, reader.fill(size))
            yield max(1, count), self.source.batch(reader.take(count) if count else self._again(deals))
        margin = 0 if self.source.drop_last else 1  # a full batch is kept back, so that the rest has a sample for every worker
        pending: deque[PendingSum] = deque()
        place = 0
        while True:
            while len(pending) <= AHEAD:
                wanted = (len(pending) + 1 + margin) * size
                pending.append(self.totals.begin(torch.tensor([float(reader.fill(wanted) < wanted)])))
            if pending.popleft().result().item():
                break
            yield size, self.source.batch(reader.take(size))
            place += 1
        if not self.source.drop_last:
            deals.read = ((_most_held(deals) + place) * size,) * group.size
            yield from self._rest(reading, deals)
        elif place == 0 and not deals.ended:
            raise DataError(_no_full_batch(size, group.size))

    def _rest(self, reading: _Reading, deals: PassDeals) -> Iterator[Batch]:
        """The samples that are left in all shards, in rounds; each worker gets its part of them."""
        group, size, reader = deals.group, self.batch_size, reading.reader
        workers = group.size
        pool: list[Rows] = []
        over = False
        while not over:
            more = reader.fill(size + 1) > size
            own = reader.take(min(size, reader.available)) if reader.available else None
            gathered, over = self._gather(own, more, group)
            pool += gathered.values()
            deals.read = tuple(count + length(gathered.get(rank, [])) for rank, count in enumerate(deals.read))
            held = sum(map(length, pool))
            # never leave fewer samples than workers, which would be in no batch
            while held >= workers * (size + 1):
                together = joined(pool)
                pool = [part(together, workers * size, held)]
                held -= workers * size
                reading.pooled(pool, [part(together, rank * size, (rank + 1) * size) for rank in range(workers)])
                yield size, self.source.batch(reading.round[group.rank])
        if held < workers:
            if deals.ended:
                return  # they are in no batch, as fewer samples than workers at the end of an epoch with a length
            raise DataError(_too_short(held, workers))
        together = joined(pool)
        reading.pooled([], [part(together, *share_of(held, rank, workers)) for rank in range(workers)])
        yield length(reading.round[group.rank]), self.source.batch(reading.round[group.rank])

    def _gather(self, own: Rows | None, more: bool, group: Group) -> tuple[dict[int, Rows], bool]:
        """The remaining samples of every worker, by rank, the same at all workers; and true if none has more."""
        data = b"" if own is None else packed(own)
        words = -(-len(data) // _WORD)
        sizes = torch.zeros(group.size, _SIZES, dtype=torch.int64)
        sizes[group.rank] = torch.tensor([len(data), int(more), words])
        sizes = self._total(sizes)
        ends = sizes[:, 2].cumsum(0).tolist()
        sent = torch.zeros(ends[-1], dtype=torch.int64)
        if words:
            end = ends[group.rank]
            sent[end - words : end] = torch.frombuffer(bytearray(data.ljust(words * _WORD, b"\0")), dtype=torch.int64)
        received = self._total(sent).numpy().tobytes() if ends[-1] else b""
        gathered = {}
        for rank, ((nbytes, _, count), end) in enumerate(zip(sizes.tolist(), ends, strict=True)):
            begin = (end - count) * _WORD
            if nbytes and received[begin]:  # zeros come from a worker that was lost in between; no packed rows start with zero
                gathered[rank] = unpacked(received[begin : begin + nbytes])
        return gathered, not bool(sizes[:, 1].any())

    def _total(self, value: Tensor) -> Tensor:
        return self.totals.begin(value).result()

    def open(self, deals: PassDeals, rank: int, skip: int = 0) -> Iterator[Rows]:
        """The shard of a rank of those with whom the pass began."""
        workers = len(deals.ended[0].members) if deals.ended else deals.group.size
        seed = rng.derive(deals.group.seed, "shard", rank, deals.number)
        return _apart(self.source.shard(ShardRequest(rank, workers, deals.group.seed, deals.number, skip)), rng.Apart(seed))

    def _reading(self, deals: PassDeals) -> _Reading:
        """What the worker reads in the present deal: after changes it continues with what it has read."""
        before, changes = deals.reading, len(deals.ended)
        if before is None:
            share = self._share(deals, changes)
            return _Reading(Reader(self._read(deals, (*share.own, *share.others))), changes)
        rows = before.reader.rest()
        for change in range(before.changes + 1, changes + 1):
            share = self._share(deals, change)
            [own] = share.own
            rows = chain(picked(rows, own.offset, own.stride), self._read(deals, share.others))
        return _Reading(Reader(chain(before.left(deals), rows)), changes)

    def _share(self, deals: PassDeals, change: int) -> ShardShare:
        members = deals.ended[change].members if change < len(deals.ended) else deals.group.members
        shares = shares_of(members, deals.ended[:change], self.batch_size, self.source.repeats)
        return shares[deals.group.members[deals.group.rank]]

    def _read(self, deals: PassDeals, parts: Iterable[ShardPart]) -> Iterator[Rows]:
        return (rows for each in parts for rows in each.read(lambda rank: self.open(deals, rank)))

    def _again(self, deals: PassDeals) -> Rows:
        """A sample that another has used: for a worker that has joined others who hold a batch, and finds none for the same step."""
        workers = range(len(deals.ended[0].members)) if self.source.repeats else ()
        found = next((rows for rank in workers for rows in self.open(deals, rank) if length(rows)), None)
        if found is None:
            raise DataError(
                f"A worker has joined in the midst of a step, and a {type(self.source).__name__} has no sample for it: let workers join "
                "between two epochs, or give a source that repeats its order."
            )
        return part(found, 0, 1)


@dataclass(slots=True)
class _Reading:
    """What a worker reads after so many `changes`.

    Of samples that were left in all shards, `pool` is not dealt yet, and `round` has the last batches by rank.
    """

    reader: Reader
    changes: int
    pool: Sequence[Rows] = ()
    round: Sequence[Rows] = ()

    def pooled(self, pool: Sequence[Rows], dealt: Sequence[Rows]) -> None:
        """Note what is dealt now, and what is left."""
        self.pool, self.round = pool, dealt

    def left(self, deals: PassDeals) -> Iterable[Rows]:
        """Of the samples that all have, those that nobody has used; the first of those who have them deals them anew."""
        last, name = deals.ended[self.changes], deals.group.members[deals.group.rank]
        if name != next(each for each in deals.group.members if each in last.members):
            return []
        here = last.members.index(name)
        taken = (last.used[here] or 0) + last.held[here]
        unused = [each not in deals.group.members and deals.used_since(self.changes, each) < taken for each in last.members]
        return [*(rows for lost, rows in zip(unused, self.round, strict=False) if lost), *self.pool]


class _SpanReader:
    """Reads samples at positions in the shards of a source one after the other, which know their lengths."""

    def __init__(self, batches: ShardBatches, deals: PassDeals, samples: int) -> None:
        self.batches = batches
        self.deals = deals
        workers = len(deals.ended[0].members) if deals.ended else deals.group.size
        self.starts = [share_of(samples, rank, workers)[0] for rank in range(workers)]
        self.position = -1
        self.reader = Reader(())

    def read(self, spans: Spans) -> Rows:
        """The samples at `spans`. Raises DataError for a shard that ends early."""
        return joined([self._piece(*piece) for first, last in spans for piece in self._pieces(first, last)])

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        rank = bisect_right(self.starts, first) - 1
        while first < last:
            stop = self.starts[rank + 1] if rank + 1 < len(self.starts) else last
            yield rank, first, min(stop, last)
            rank, first = rank + 1, stop

    def _piece(self, rank: int, first: int, last: int) -> Rows:
        if first != self.position or first == self.starts[rank]:
            self.reader = Reader(self.batches.open(self.deals, rank, first - self.starts[rank]))
        wanted = last - first
        if self.reader.fill(wanted) < wanted:
            raise DataError(
                f"The shard of {self._holder(rank)} ended {wanted - self.reader.available} samples early: "
                f"{type(self.batches.source).__name__} has announced {self.batches.source.samples} samples an epoch."
            )
        self.position = last
        return self.reader.take(wanted)

    def _holder(self, rank: int) -> str:
        return (self.deals.ended[0].members if self.deals.ended else self.deals.group.members)[rank]


def _most_held(deals: PassDeals) -> int:
    """The most batches that a member held when the present deal began: as many the others get first."""
    last = deals.ended[-1:]
    return max(
        (held for each in last for name, held in zip(each.members, each.held, strict=True) if name in deals.group.members), default=0
    )


def _apart(shard: Iterator[Rows], drawing: rng.Apart) -> Iterator[Rows]:
    """The rows of `shard`, whose draws from the global generators do not change the random numbers of the training."""
    shard = iter(shard)
    while True:
        with drawing:
            rows = next(shard, None)
        if rows is None:
            return
        yield rows


def _too_short(samples: int, workers: int) -> str:
    if samples == 0:
        return "The shards are all empty, so there is nothing to train on: check how they were opened, and whether they can be read again."
    return f"{samples} samples cannot be sharded over {workers} workers: use at most {samples} workers, or more data."


def _no_full_batch(size: int, workers: int) -> str:
    return f"drop_last leaves no batch of {size} samples for each of {workers} workers: give a smaller batch_size, or leave drop_last out."
