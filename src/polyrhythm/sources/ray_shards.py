"""A data set of Ray, read by every worker at once: Ray's executors hand out its blocks, and the driver holds none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from polyrhythm.core.columns.batch_iterator import BatchIterator, Dividing, IteratesBatches
from polyrhythm.core.columns.columns import collated
from polyrhythm.core.protocols.sharded import Rows, ShardRequest
from polyrhythm.core.settings import checked
from polyrhythm.errors import DataError


@dataclass(frozen=True)
@checked
class RayShards:
    """One `DataIterator` for each worker, by rank, of one `streaming_split`; they travel to actors with the training function.

    Inside Ray Train, `ray.train.get_dataset_shard(name)` gives a worker its own, which `worker.batches` takes as it is.
    """

    iterators: tuple[IteratesBatches, ...]
    drop_last: bool = False
    samples: ClassVar[None] = None
    repeats: ClassVar[bool] = False

    @staticmethod
    def of(dataset: Dividing, workers: int, drop_last: bool = False) -> RayShards:
        """The shards of a `ray.data.Dataset`, to be made once, where the run is started: every row is in one of them."""
        return RayShards(tuple(dataset.streaming_split(workers, equal=False)), drop_last)

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """The rows of the iterator of that rank. Raises DataError where there are not as many as workers."""
        if request.workers != len(self.iterators):
            raise DataError(
                f"The data set was divided for {len(self.iterators)} readers, but {request.workers} read it: give RayShards.of the number "
                "of workers, and a loader over it no separate processes."
            )
        yield from BatchIterator(self.iterators[request.rank]).shard(request)

    def batch(self, rows: Rows) -> Any:
        """The rows as a dict of columns."""
        return collated(rows)
