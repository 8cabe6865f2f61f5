"""Data that divide themselves among workers, alone or in a loader whose processes read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from polyrhythm.core import rng
from polyrhythm.core.columns.batch_iterator import BatchIterator, Dividing, IteratesBatches
from polyrhythm.core.protocols.sharded import Rows, ShardedSource, ShardRequest
from polyrhythm.core.torch_private.one_process import no_loader, pinned
from polyrhythm.core.training.data.loader import Loads, refuse_own_ways
from polyrhythm.errors import DataError

PLAIN = (tuple, list, dict)
"""Types that have none of the protocols of data: to ask for a protocol takes a while, at every worker."""


def sharded(data: Any) -> ShardedSource | None:
    """`data` as a source, if they divide themselves; None for other data. Raises DataError for data that must be divided before the run."""
    if type(data) in PLAIN:
        return None
    if isinstance(data, ShardedSource):
        return data
    if isinstance(data, Dividing):
        raise DataError(
            f"worker.batches got a whole {type(data).__name__}, of which every worker would read everything: divide it once, "
            "where the run is started, with pr.sources.RayShards.of(dataset, workers), and give what that returns."
        )
    return BatchIterator(data) if isinstance(data, IteratesBatches) else None


class LoadedShards:
    """A source that is read by the processes of a DataLoader: each process reads its own shard, and the worker takes from them in turn.

    The number of samples of a worker is not known in advance, since the loader's processes have shards of different sizes.
    """

    samples = None

    def __init__(self, loader: DataLoader[Any]) -> None:
        refuse_own_ways(loader)
        source: Any = loader.dataset
        if loader.batch_size is None:
            raise DataError(f"A DataLoader over a {type(source).__name__} has batch_size=None: give it the batch size of a worker.")
        self.source: ShardedSource = source
        self.batch_size, self.drop_last, self.repeats = loader.batch_size, loader.drop_last or source.drop_last, source.repeats
        self.loads = Loads(loader)
        self.part = _LoadedPart(source, max(1, loader.num_workers))
        self.copy = self.loads.copy(self.part, batch_size=None, collate_fn=_as_they_are)

    def shard(self, request: ShardRequest) -> Iterator[Rows]:
        """The rows that the loader's processes read, in the loader's order."""
        self.part.ask(request)
        with self.loads.one_pass(self.copy, rng.derive(request.seed, "loading", request.rank, request.epoch)) as chunks:
            yield from chunks

    def batch(self, rows: Rows) -> Any:
        """The source's batch of `rows`, in pinned memory if the loader has that option."""
        batch = self.source.batch(rows)
        return pinned(batch) if self.loads.options["pin_memory"] else batch

    def close(self) -> None:
        """End the processes that persist between epochs."""
        self.loads.end(self.copy)


class _LoadedPart(IterableDataset[Any]):
    """In the loader's processes: the shard of one of them."""

    def __init__(self, source: ShardedSource, processes: int) -> None:
        self.source = source
        self.processes = processes
        # shared, so that processes that persist see what the next epoch reads
        self._request = torch.zeros(4, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def ask(self, request: ShardRequest) -> None:
        """Set the shard that all processes together read in the next pass."""
        self._request.copy_(torch.tensor([request.rank, request.workers, request.seed, request.epoch]))

    def __iter__(self) -> Iterator[Any]:
        here, whole = get_worker_info(), ShardRequest(*self._request.tolist())
        process = 0 if here is None else here.id
        rank, workers = whole.rank * self.processes + process, whole.workers * self.processes
        with no_loader():
            shard = iter(self.source.shard(ShardRequest(rank, workers, whole.seed, whole.epoch)))
        while True:
            with no_loader():
                rows = next(shard, None)
            if rows is None:
                return
            yield rows


def _as_they_are(rows: Any) -> Any:
    return rows
