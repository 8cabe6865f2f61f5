"""A DataLoader of the user's that loads one worker's share."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from polyrhythm.core.training.data.loader import KEPT, refuse_own_ways
from polyrhythm.core.training.data.sampling import ShareSampler
from polyrhythm.core.training.data.stream import StreamShard
from polyrhythm.core.training.worker import Worker
from polyrhythm.errors import DataError


def shared(worker: Worker, loader: DataLoader[Any], counts: bool = True, split: int = 1) -> DataLoader[Any]:
    """A copy of `loader` over this worker's share of its samples, in the order of its sampler; a `split`-th of each batch.

    Equally many batches for all: fewer samples than workers are left out. `counts` is whether the samples that are drawn are counted as
    those of the next step. Raises DataError for a loader whose choice of samples cannot be shared out.
    """
    if isinstance(loader.sampler, ShareSampler):
        return loader
    options: dict[str, Any] = {name: getattr(loader, name) for name in KEPT}
    options |= {"pin_memory": loader.pin_memory, "collate_fn": loader.collate_fn, "generator": loader.generator}
    if isinstance(loader.dataset, StreamShard):
        return loader
    if isinstance(loader.dataset, IterableDataset):
        raise DataError(
            "This DataLoader is over an IterableDataset, of which every worker would read everything: give it worker.shard(dataset) in "
            "its place, and call worker.count(n) for the samples of a step."
        )
    refuse_own_ways(loader)
    batching = loader.batch_sampler
    order: Any = getattr(batching, "sampler", loader.sampler)
    if batching is None:  # the elements of the data set are batches
        return DataLoader(loader.dataset, batch_size=None, sampler=worker.sampler(order, counts=counts), **options)
    assert isinstance(batching, BatchSampler)
    if batching.batch_size % split:
        raise DataError(f"Batches of {batching.batch_size} samples cannot be split over {split} workers: give a multiple of {split}.")
    sampler = worker.sampler(order, counts=counts)
    return DataLoader(loader.dataset, batch_size=batching.batch_size // split, sampler=sampler, drop_last=batching.drop_last, **options)
