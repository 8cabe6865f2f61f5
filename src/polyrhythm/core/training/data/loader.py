"""A torch DataLoader as a source of samples: its options for batches are kept; the shuffle decides which worker gets which sample.

`Data` makes a `LoaderSource` for each loader of the user's; streams, shards and integrations use the helpers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset

from polyrhythm.core import rng
from polyrhythm.core.protocols.shuffle import Batch
from polyrhythm.core.torch_private.one_process import end_processes, take_iterator
from polyrhythm.core.training.data.sampling import order_of
from polyrhythm.errors import DataError

KEPT = (
    "num_workers",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "prefetch_factor",
    "persistent_workers",
)
"""Options of a loader that its copy takes over as they are. (`pin_memory` is kept too, where there is an accelerator.)"""


class LoaderSource:
    """The data set of a map-style `loader`, loaded and collated as the loader would."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        indexed(loader.dataset)
        refuse_own_ways(loader)
        self.loads = Loads(loader)
        self.plan = LoadOrder()
        batching = loader.batch_sampler
        if batching is None:  # the elements of the data set are batches already
            self.order, self.batch_size, self.drop_last, self.whole = order_of(loader.sampler), 1, False, True
            options: dict[str, Any] = {"batch_size": None, "sampler": self.plan}
        else:
            assert isinstance(batching, BatchSampler)
            self.order, self.batch_size, self.drop_last = order_of(batching.sampler), batching.batch_size, batching.drop_last
            self.whole = False
            options = {"batch_sampler": self.plan}
        self.copy = self.loads.copy(loader.dataset, collate_fn=loader.collate_fn, **options)

    def load(self, parts: Sequence[Sequence[int]], seed: int) -> Iterator[Batch]:
        """One batch of the samples of each of `parts`."""
        self.plan.loads = [index for part in parts for index in part] if self.whole else parts
        with self.loads.one_pass(self.copy, seed) as batches:
            for part, batch in zip(parts, batches, strict=True):
                yield length(batch) if self.whole else len(part), batch

    def close(self) -> None:
        """End the processes that persist between epochs."""
        self.loads.end(self.copy)


class LoadOrder:
    """The (batch) sampler of a copy of a loader: the samples of each batch of its next pass, or samples one by one."""

    def __init__(self) -> None:
        self.loads: Sequence[Any] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loads)

    def __len__(self) -> int:
        return len(self.loads)


class Loads:
    """The options and the random generator by which copies of a loader load, without the choice of samples."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.options: dict[str, Any] = {name: getattr(loader, name) for name in KEPT}
        self.options["pin_memory"] = loader.pin_memory and torch.accelerator.is_available()
        self.generator = torch.Generator()
        given = loader.generator
        self.salt = () if given is None else (given.initial_seed(),)

    def copy(self, dataset: Any, **options: Any) -> DataLoader[Any]:
        """A loader over `dataset` that loads in the same way."""
        return DataLoader(dataset, generator=self.generator, **self.options, **options)

    @contextmanager
    def one_pass(self, copy: DataLoader[Any], seed: int) -> Iterator[Iterator[Any]]:
        """The batches that `copy` loads in one pass, with processes seeded by `seed` and by the user's generator, if there is one.

        The processes are ended with the pass, unless they are persistent: an exception that somebody keeps would keep them alive.
        """
        self.generator.manual_seed(rng.derive(seed, *self.salt))
        batches: Any = iter(copy)
        keep = bool(self.options["persistent_workers"])
        try:
            yield batches
        except Exception:
            keep = False
            raise
        finally:
            if self.options["num_workers"] and not keep:
                take_iterator(copy)
                end_processes(batches)

    def end(self, copy: DataLoader[Any]) -> None:
        """End the processes that `copy` has kept for its next pass."""
        kept = take_iterator(copy)
        if kept is not None:
            end_processes(kept)


def indexed(data: Any) -> Any:
    if isinstance(data, (IterableDataset, dict)) or not isinstance(data, Sized) or not hasattr(data, "__getitem__"):
        raise DataError(
            f"{type(data).__name__} has no __len__ or no __getitem__, so it cannot be sharded: give a map-style Dataset or tensors."
        )
    return data


def refuse_own_ways(loader: DataLoader[Any]) -> None:
    """Refuse a loader that makes its batches in a way that a copy of it would not."""
    own = type(loader).__name__
    if type(loader).__iter__ is not DataLoader.__iter__:
        raise DataError(
            f"{own} is a subclass of DataLoader, whose own way of making batches would be lost: give a plain "
            f"DataLoader, or iterate over yours with sampler=worker.sampler(dataset)."
        )
    if not loader.in_order:
        raise DataError(
            "This DataLoader has in_order=False: the order of its batches would vary, and a seed would not determine the run. Leave it out."
        )
    batching = loader.batch_sampler
    if batching is not None and type(batching) is not BatchSampler:
        raise DataError(
            f"{type(batching).__name__} is a batch sampler whose batches may differ from worker to worker: shard its batches "
            f"yourself, DataLoader(dataset, batch_sampler=list(worker.shard(batches))), iterate over that loader, and call worker.count(n)."
        )


def length(batch: Any) -> int:
    """The number of samples in a batch of the user's: the length of its first part."""
    first = batch
    while isinstance(first, (tuple, list)) and first:
        first = first[0]
    if isinstance(first, dict) and first:
        return length(next(iter(first.values())))
    if isinstance(first, torch.Tensor):
        return len(first) if first.dim() else 1
    return len(first) if hasattr(first, "__len__") else 1
