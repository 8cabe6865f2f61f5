"""An IterableDataset of Hugging Face, which divides itself among workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from polyrhythm.core.columns.columns import collated, columns_of
from polyrhythm.core.protocols.sharded import Rows, ShardRequest
from polyrhythm.core.settings import checked

_AT_ONCE = 256


class DatasetStream(Protocol):
    """The part of `datasets.IterableDataset` that is used."""

    num_shards: int

    def shard(self, num_shards: int, index: int) -> DatasetStream:
        """Every `num_shards`-th of its shards."""

    def set_epoch(self, epoch: int) -> None:
        """Shuffle as in that epoch from now on."""

    def iter(self, batch_size: int) -> Iterator[Any]:
        """Columns of `batch_size` samples at once."""


@dataclass(frozen=True)
@checked
class HuggingFaceStream:
    """A streaming data set (`load_dataset(..., streaming=True)`, `to_iterable_dataset()`), shuffled as its own settings say.

    Its shards (files) are dealt out; with fewer than workers, every worker reads all and keeps every P-th sample. A map-style
    `datasets.Dataset` needs no such source: give it to `worker.batches` as it is.
    """

    dataset: DatasetStream
    drop_last: bool = False
    samples: ClassVar[None] = None
    repeats: ClassVar[bool] = True

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """The samples of every P-th shard."""
        self.dataset.set_epoch(request.epoch)
        if self.dataset.num_shards >= request.workers:
            own = self.dataset.shard(num_shards=request.workers, index=request.rank)
            own.set_epoch(request.epoch)
            for columns in own.iter(batch_size=_AT_ONCE):
                yield columns_of(columns)
            return
        passed = 0
        for columns in self.dataset.iter(batch_size=_AT_ONCE):
            rows = columns_of(columns)
            count = len(next(iter(rows.values()), []))
            first = (request.rank - passed) % request.workers
            passed += count
            if first < count:
                yield {name: column[first :: request.workers] for name, column in rows.items()}

    def batch(self, rows: Rows) -> Any:
        """The rows as a dict of columns."""
        return collated(rows)
