"""The user's data set as a shuffle sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    default_collate,
)

from polyrhythm.errors import DataError


class TensorSource:
    """Tensors of equal length, by name or by place: a batch is one indexing of each."""

    def __init__(self, tensors: Sequence[Tensor], names: Sequence[str] | None = None) -> None:
        lengths = [len(tensor) if tensor.dim() else 0 for tensor in tensors]
        if len(set(lengths)) != 1:
            raise DataError(f"The tensors have lengths {lengths}: give tensors with one entry per sample each.")
        self.tensors = tensors
        self.names = names
        self.length = lengths[0]

    def __len__(self) -> int:
        return self.length

    def batch(self, indices: list[int]) -> tuple[Tensor, ...] | dict[str, Tensor]:
        """The samples of `indices`, stacked."""
        parts = tuple(tensor[indices] for tensor in self.tensors)
        return parts if self.names is None else dict(zip(self.names, parts, strict=True))


class MapSource:
    """Any map-style data set: samples are fetched one by one and collated."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset = dataset
        self.collate = collate

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: list[int]) -> Any:
        """The samples of `indices`, collated."""
        return self.collate([self.dataset[index] for index in indices])


def source_of(data: Any) -> TensorSource | MapSource:
    """The source for a Dataset, tensors or arrays in a tuple or a dict, or a DataLoader (its data set and collate function).

    Raises DataError for what has no length or no index, and for a DataLoader whose choice of samples would be lost.
    """
    if isinstance(data, TensorDataset):
        return TensorSource(data.tensors)
    if isinstance(data, (tuple, list)) and data and all(isinstance(part, _ARRAYS) for part in data):
        return TensorSource(tuple(torch.as_tensor(part) for part in data))
    if isinstance(data, dict) and data and all(isinstance(part, _ARRAYS) for part in data.values()):
        return TensorSource([torch.as_tensor(part) for part in data.values()], list(data))
    if isinstance(data, DataLoader):
        return MapSource(_indexed(data.dataset), _collate(data))
    return MapSource(_indexed(data), default_collate)


_ARRAYS = (Tensor, np.ndarray)


def _indexed(data: Any) -> Any:
    if isinstance(data, (IterableDataset, dict)) or not isinstance(data, Sized) or not hasattr(data, "__getitem__"):
        raise DataError(
            f"{type(data).__name__} has no length or no index, so it cannot be shared out: give a map-style Dataset or tensors."
        )
    return data


def _collate(loader: DataLoader[Any]) -> Callable[[list[Any]], Any]:
    """How the loader makes a batch of samples. Which samples, and in which order, is the shuffle's to say."""
    if loader.batch_sampler is None:
        raise DataError("This DataLoader makes no batches (batch_size=None), so samples cannot be shared out: give it a batch_size.")
    usual = isinstance(loader.sampler, (SequentialSampler, DistributedSampler)) or (
        isinstance(loader.sampler, RandomSampler) and not loader.sampler.replacement
    )
    if not usual or type(loader.batch_sampler) is not BatchSampler:
        chosen = loader.sampler if not usual else loader.batch_sampler
        raise DataError(
            f"{type(chosen).__name__} chooses samples in its own way, which would be lost, because worker.batches shares them out anew: "
            f"give the Dataset that you want to train on, for example a torch.utils.data.Subset."
        )
    return loader.collate_fn


def parts_of(data: Any) -> tuple[Any, ...]:
    """The objects that make up `data`: it is the same data as long as they are the same, whatever they are wrapped in."""
    if isinstance(data, TensorDataset):
        return tuple(data.tensors)
    if isinstance(data, DataLoader):
        return (data.dataset, data.collate_fn)
    if isinstance(data, dict):
        return (*data, *data.values())
    return tuple(data) if isinstance(data, (tuple, list)) and len(data) <= _FEW else (data,)


_FEW = 16
