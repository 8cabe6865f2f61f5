"""A DataLoader of the user's that loads one worker's share."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from polyrhythm.errors import DataError
from polyrhythm.training.loader import KEPT, refuse_own_ways
from polyrhythm.training.sampling import ShareSampler
from polyrhythm.training.worker import Worker


def shared(worker: Worker, loader: DataLoader[Any], counts: bool = True) -> DataLoader[Any]:
    """A copy of `loader` over this worker's share of its samples, in the order of its sampler; the batch size is that of each worker.

    Equally many batches for all: fewer samples than workers are left out. `counts` is whether the samples that are drawn are counted as
    those of the next step. Raises DataError for a loader whose choice of samples cannot be shared out.
    """
    if isinstance(loader.sampler, ShareSampler):
        return loader
    options: dict[str, Any] = {name: getattr(loader, name) for name in KEPT}
    options |= {"pin_memory": loader.pin_memory, "collate_fn": loader.collate_fn, "generator": loader.generator}
    if isinstance(loader.dataset, IterableDataset):
        raise DataError(
            "This DataLoader is over an IterableDataset, of which every worker would read everything: give it worker.shard(dataset) in "
            "its place, and call worker.count(n) for the samples of a step."
        )
    refuse_own_ways(loader)
    batching = loader.batch_sampler
    if batching is None:  # the elements of the data set are batches
        return DataLoader(loader.dataset, batch_size=None, sampler=worker.sampler(loader.sampler, counts=counts), **options)
    assert isinstance(batching, BatchSampler)
    sampler = worker.sampler(batching.sampler, counts=counts)  # type: ignore[arg-type]
    return DataLoader(loader.dataset, batch_size=batching.batch_size, sampler=sampler, drop_last=batching.drop_last, **options)
