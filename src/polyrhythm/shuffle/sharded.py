"""Batches of data of which every worker reads its own shard: equally many at all workers, and no sample is lost.

Where the number of samples is known, nothing is sent. Where it is not, workers agree on each batch some batches ahead, so that nobody
waits; when the first shard has no full batch left, the samples that remain in the others are dealt out evenly over all workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.protocols.sharded import BackgroundSums, PendingSum, Rows, ShardedSource, ShardRequest
from polyrhythm.core.protocols.shuffle import Batch
from polyrhythm.errors import CheckpointError, DataError
from polyrhythm.shuffle.dealing import check_size
from polyrhythm.shuffle.rows import Reader, joined, length, packed, part, unpacked

AHEAD = 2
"""The number of batches that workers agree on in advance: one worker may be that many steps ahead of another that reads the same source."""

_WORD = 8
_SIZES = 3
"""Figures about a worker's last samples: their bytes, 1 if there are more samples, and the words in which they are sent."""


@dataclass(frozen=True, slots=True)
class ShardBatches:
    """One worker's batches of one source."""

    source: ShardedSource
    group: Group
    totals: BackgroundSums
    batch_size: int

    def count(self) -> int | None:
        """The number of batches in an epoch, or None if it is unknown. Raises DataError for data that cannot be sharded."""
        check_size(self.batch_size)
        samples, workers = self.source.samples, self.group.size
        if samples is None:
            return None
        if samples < workers:
            raise DataError(_too_short(samples, workers))
        if self.source.drop_last and samples < workers * self.batch_size:
            raise DataError(_no_full_batch(self.batch_size, workers))
        return samples // workers // self.batch_size if self.source.drop_last else -(-(samples // workers) // self.batch_size)

    def epoch(self, number: int, taken: int) -> Iterator[Batch]:
        """The batches of epoch `number`; the first `taken` are not used again, and may be empty."""
        count = self.count()
        if taken and not self.source.repeats:
            raise CheckpointError(
                f"The checkpoint was written after {taken} batches of an epoch of a {type(self.source).__name__}, which does not repeat "
                "the order of its samples: resume from one that was written between two epochs, as worker.save() does there."
            )
        return self._agreed(number) if count is None else self._known(number, count, taken)

    def _known(self, number: int, count: int, taken: int) -> Iterator[Batch]:
        assert self.source.samples is not None
        mine, size = _share(self.source.samples, self.group), self.batch_size
        skipped = min(taken, count)
        yield from ((size, None) for _ in range(skipped))
        if skipped == count:
            return
        reading = self._reading(number, skipped * size)
        for place in range(skipped, count):
            last = place == count - 1 and not self.source.drop_last
            wanted = mine - place * size if last else size
            if reading.fill(wanted) < wanted:
                raise DataError(
                    f"The shard of {self.group.members[self.group.rank]} ended {wanted - reading.available} samples early: "
                    f"{type(self.source).__name__} has announced {self.source.samples} samples an epoch."
                )
            yield wanted, self.source.batch(reading.take(wanted))

    def _agreed(self, number: int) -> Iterator[Batch]:
        size, reading = self.batch_size, self._reading(number, 0)
        margin = 0 if self.source.drop_last else 1  # a full batch is kept back, so that the rest has a sample for every worker
        pending: deque[PendingSum] = deque()
        place = 0
        while True:
            while len(pending) <= AHEAD:
                wanted = (len(pending) + 1 + margin) * size
                pending.append(self.totals.begin(torch.tensor([float(reading.fill(wanted) < wanted)])))
            if pending.popleft().result().item():
                break
            yield size, self.source.batch(reading.take(size))
            place += 1
        if not self.source.drop_last:
            yield from self._rest(reading, started=place > 0)
        elif place == 0:
            raise DataError(_no_full_batch(size, self.group.size))

    def _rest(self, reading: Reader, started: bool) -> Iterator[Batch]:
        """The samples that are left in all shards, in rounds; each worker gets its part of them."""
        workers, rank, size = self.group.size, self.group.rank, self.batch_size
        pool: list[Rows] = []
        over = False
        while not over:
            more = reading.fill(size + 1) > size
            own = reading.take(min(size, reading.available)) if reading.available else None
            gathered, over = self._gather(own, more)
            pool += gathered
            held = sum(map(length, pool))
            # never leave fewer samples than workers, which would be in no batch
            while held >= workers * (size + 1):
                together = joined(pool)
                pool = [part(together, workers * size, held)]
                held -= workers * size
                yield size, self.source.batch(part(together, rank * size, (rank + 1) * size))
        if held < workers:
            raise DataError(_too_short(held, workers))
        start = rank * (held // workers) + min(rank, held % workers)
        mine = held // workers + (rank < held % workers)
        yield mine, self.source.batch(part(joined(pool), start, start + mine))

    def _gather(self, own: Rows | None, more: bool) -> tuple[list[Rows], bool]:
        """The remaining samples of every worker, by rank, the same at all workers; and true if none has more."""
        data = b"" if own is None else packed(own)
        words = -(-len(data) // _WORD)
        sizes = torch.zeros(self.group.size, _SIZES, dtype=torch.int64)
        sizes[self.group.rank] = torch.tensor([len(data), int(more), words])
        sizes = self._total(sizes)
        ends = sizes[:, 2].cumsum(0).tolist()
        sent = torch.zeros(ends[-1], dtype=torch.int64)
        if words:
            end = ends[self.group.rank]
            sent[end - words : end] = torch.frombuffer(bytearray(data.ljust(words * _WORD, b"\0")), dtype=torch.int64)
        received = self._total(sent).numpy().tobytes() if ends[-1] else b""
        gathered = []
        for (nbytes, _, count), end in zip(sizes.tolist(), ends, strict=True):
            begin = (end - count) * _WORD
            if nbytes and received[begin]:  # zeros come from a worker that was lost in between; no packed rows start with zero
                gathered.append(unpacked(received[begin : begin + nbytes]))
        return gathered, not bool(sizes[:, 1].any())

    def _total(self, value: Tensor) -> Tensor:
        return self.totals.begin(value).result()

    def _reading(self, number: int, skip: int) -> Reader:
        group = self.group
        seed = rng.derive(group.seed, "shard", group.rank, number)
        request = ShardRequest(group.rank, group.size, group.seed, number, skip)
        return Reader(_apart(self.source.shard(request), rng.Apart(seed)))


def _apart(shard: Iterator[Rows], drawing: rng.Apart) -> Iterator[Rows]:
    """The rows of `shard`, whose draws from the global generators do not change the random numbers of the training."""
    shard = iter(shard)
    while True:
        with drawing:
            rows = next(shard, None)
        if rows is None:
            return
        yield rows


def _share(samples: int, group: Group) -> int:
    return samples // group.size + (group.rank < samples % group.size)


def _too_short(samples: int, workers: int) -> str:
    if samples == 0:
        return "The shards are all empty, so there is nothing to train on: check how they were opened, and whether they can be read again."
    return f"{samples} samples cannot be sharded over {workers} workers: use at most {samples} workers, or more data."


def _no_full_batch(size: int, workers: int) -> str:
    return f"drop_last leaves no batch of {size} samples for each of {workers} workers: give a smaller batch_size, or leave drop_last out."
