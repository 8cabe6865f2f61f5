"""The samples of an epoch and their order: the intent of a loader's sampler, for all workers together.

Sources of `worker.batches` take their order from here; `worker.sampler` returns a `ShareSampler`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import (
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from polyrhythm.core import rng
from polyrhythm.core.protocols.deals import PassDeals
from polyrhythm.core.protocols.shuffle import Order
from polyrhythm.core.training.data.draws import ShareDraws
from polyrhythm.errors import DataError


@dataclass(frozen=True, slots=True)
class Permuted:
    """All of `length` samples, in a new order each epoch."""

    length: int
    redraws: ClassVar[bool] = False

    def __len__(self) -> int:
        return self.length

    def indices(self, seed: int, epoch: int) -> Sequence[int]:
        """One permutation an epoch, not to be written to."""
        return _permutation(self.length, seed, epoch)


@lru_cache(maxsize=2)
def _permutation(length: int, seed: int, epoch: int) -> Sequence[int]:
    """A permutation, drawn once for all workers of the process: otherwise each of a thousand would draw the same one, of all samples."""
    drawn = rng.stream(seed, "shuffle", epoch).permutation(length)
    return array("q", drawn.astype(np.int64).tobytes())


@dataclass(frozen=True, slots=True)
class Listed:
    """The same samples in the same order in every epoch."""

    listed: Sequence[int]
    redraws: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.listed)

    def indices(self, seed: int, epoch: int) -> list[int]:
        """The indices as they were given."""
        return list(self.listed)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draw of one of torch's samplers from the run's seed; the sampler's own generator may differ between workers."""

    draw: Callable[[torch.Generator], Iterable[int]]
    length: int
    redraws: bool

    def __len__(self) -> int:
        return self.length

    def indices(self, seed: int, epoch: int) -> list[int]:
        """A new draw each epoch."""
        return list(self.draw(rng.generator(seed, "sampler", epoch)))


def order_of(sampler: Any) -> Order:
    """The order that a loader's sampler stands for. Raises DataError for an unknown sampler, since it may differ from worker to worker."""
    kind = type(sampler)
    if kind is SequentialSampler:
        return Listed(range(len(sampler)))
    if kind is DistributedSampler:
        length = len(sampler.dataset)
        return Permuted(length) if sampler.shuffle else Listed(range(length))
    if kind is RandomSampler:
        return _random(sampler)
    if kind is WeightedRandomSampler:
        weights, count, again = sampler.weights, sampler.num_samples, sampler.replacement
        return Drawn(lambda generator: WeightedRandomSampler(weights, count, again, generator), count, redraws=True)
    if kind is SubsetRandomSampler:
        indices = sampler.indices
        return Drawn(lambda generator: SubsetRandomSampler(indices, generator), len(indices), redraws=False)
    if kind in (list, tuple, range):
        return Listed(sampler)
    raise DataError(_refusal(sampler))


def parts_of(sampler: Any) -> tuple[Any, ...]:
    """The objects that make up a sampler that `order_of` takes: it chooses the same samples as long as they are the same."""
    kind = type(sampler)
    if kind is SubsetRandomSampler:
        return (kind, sampler.indices)
    if kind is DistributedSampler:
        return (kind, sampler.shuffle)
    return (kind, sampler) if kind in (list, tuple, range) else (kind,)


def _random(sampler: RandomSampler) -> Order:
    source, again, count = sampler.data_source, sampler.replacement, sampler.num_samples
    if not again and count == len(source):
        return Permuted(count)
    return Drawn(lambda generator: RandomSampler(source, again, count, generator), count, redraws=True)


def _refusal(sampler: Any) -> str:
    if type(sampler) is ShareSampler:
        return (
            "This DataLoader takes its indices from worker.sampler, which shares them out already, and worker.batches would do so again: "
            "iterate the loader itself, or leave the sampler out."
        )
    return (
        f"{type(sampler).__name__} chooses samples in its own way, which may differ from worker to worker: give the DataLoader the list of "
        f"indices that it draws (sampler=list(…), the same at every worker), or a torch.utils.data.Subset of the data set."
    )


class ShareSampler(Sampler[int]):
    """One worker's indices of a data set, for the user's own DataLoader: equally many at every worker, a new epoch at each pass.

    An index counts as a sample of the next step when it is drawn; a loader with worker processes draws ahead of the steps.
    """

    def __init__(
        self, share: Callable[[PassDeals, int], Iterator[int]], samples: int, draws: ShareDraws, count: Callable[[int], None]
    ) -> None:
        self._share = share
        self._samples = samples
        self._draws = draws
        self._count = count

    def set_epoch(self, epoch: int) -> None:
        """Make the next pass that of `epoch`, from 0; without this call each pass is the next epoch's."""
        self._draws.number = epoch

    def __len__(self) -> int:
        return self._samples // self._draws.deals.group.size

    def __iter__(self) -> Iterator[int]:
        for index in self._draws.items(self._draws.number, self._share, 0):
            self._count(1)
            yield index
