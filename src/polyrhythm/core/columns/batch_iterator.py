"""Data that an engine has divided among the workers already: an object with `iter_batches`, such as a shard of Ray Data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from polyrhythm.core.columns.columns import collated, columns_of
from polyrhythm.core.protocols.sharded import Rows, ShardRequest

BATCH_ROWS = 1024
"""Rows requested at once."""


@runtime_checkable
class IteratesBatches(Protocol):
    """An object that iterates over batches of columns, once more in each epoch."""

    def iter_batches(self, *, batch_size: int | None, batch_format: str) -> Iterable[Any]:
        """One epoch of this worker's rows, `batch_size` at once, as columns of numpy arrays if `batch_format` is "numpy"."""


@runtime_checkable
class Dividing(Protocol):
    """A whole data set that can be divided into iterators of batches."""

    def streaming_split(self, n: int, *, equal: bool) -> list[Any]:
        """`n` iterators, which together give every row once."""


@dataclass(frozen=True)
class BatchIterator:
    """This worker's own iterator of batches; which rows are in it may differ from epoch to epoch."""

    iterator: IteratesBatches
    drop_last: bool = False
    samples: ClassVar[None] = None
    repeats: ClassVar[bool] = False

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """The rows that the iterator gives; `request` is ignored, since the engine has divided the rows already."""
        for batch in self.iterator.iter_batches(batch_size=BATCH_ROWS, batch_format="numpy"):
            yield columns_of(batch)

    def batch(self, rows: Rows) -> Any:
        return collated(rows)
