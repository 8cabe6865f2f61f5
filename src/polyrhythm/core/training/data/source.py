"""The user's data as the sources of a shuffle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, TensorDataset, default_collate

from polyrhythm.core.protocols.shuffle import Batch
from polyrhythm.core.training.data import sampling
from polyrhythm.core.training.data.loader import LoaderSource, indexed
from polyrhythm.core.training.data.sampling import Permuted
from polyrhythm.core.training.data.stream import DEFAULT_BATCH_SIZE, LoaderStream, PlainStream
from polyrhythm.errors import DataError


class TensorSource:
    """Tensors of equal length, by name or by place: a batch is one indexing of each."""

    batch_size = DEFAULT_BATCH_SIZE
    drop_last = False
    whole = False

    def __init__(self, tensors: Sequence[Tensor], names: Sequence[str] | None = None) -> None:
        lengths = [len(tensor) if tensor.dim() else 0 for tensor in tensors]
        if len(set(lengths)) != 1:
            raise DataError(f"The tensors have lengths {lengths}: give tensors with one entry per sample each.")
        self.tensors = tensors
        self.names = names
        self.order = Permuted(lengths[0])

    def load(self, parts: Sequence[Sequence[int]], seed: int) -> Iterator[Batch]:
        """The samples of each of `parts`, stacked."""
        for part in parts:
            batch = tuple(tensor[part] for tensor in self.tensors)
            yield len(part), batch if self.names is None else dict(zip(self.names, batch, strict=True))


class MapSource:
    """Any map-style data set: samples are fetched one by one and collated."""

    batch_size = DEFAULT_BATCH_SIZE
    drop_last = False
    whole = False

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.order = Permuted(len(dataset))
        several = getattr(dataset, "__getitems__", None)  # as a DataLoader asks for them
        self.fetch: Callable[[Sequence[int]], list[Any]] = several or (lambda part: [dataset[index] for index in part])

    def load(self, parts: Sequence[Sequence[int]], seed: int) -> Iterator[Batch]:
        """The samples of each of `parts`, collated."""
        for part in parts:
            yield len(part), default_collate(self.fetch(part))


Sources = TensorSource | MapSource | LoaderSource
Streams = PlainStream | LoaderStream


def source_of(data: Any) -> Sources:
    """The source for a data set with a length: a Dataset, tensors or arrays in a tuple or a dict, or a DataLoader.

    Raises DataError for what has no length or no index, and for a DataLoader with an option that cannot be kept.
    """
    if isinstance(data, TensorDataset):
        return TensorSource(data.tensors)
    if isinstance(data, (tuple, list)) and data and all(isinstance(part, _ARRAYS) for part in data):
        return TensorSource(tuple(torch.as_tensor(part) for part in data))
    if isinstance(data, dict) and data and all(isinstance(part, _ARRAYS) for part in data.values()):
        return TensorSource([torch.as_tensor(part) for part in data.values()], list(data))
    return LoaderSource(data) if isinstance(data, DataLoader) else MapSource(indexed(data))


def stream_of(data: Any) -> Streams | None:
    """The stream for data that are only iterated: an IterableDataset, a DataLoader over one, an iterator; None for other data."""
    if isinstance(data, DataLoader):
        return LoaderStream(data) if isinstance(data.dataset, IterableDataset) else None
    if isinstance(data, IterableDataset):
        return PlainStream(data)
    ordered = isinstance(data, Iterable) and not isinstance(data, Set)
    return PlainStream(data) if ordered and not hasattr(data, "__getitem__") else None


_ARRAYS = (Tensor, np.ndarray)


def parts_of(data: Any) -> tuple[Any, ...]:
    """The objects that make up `data`: it is the same data as long as they are the same, whatever they are wrapped in."""
    if isinstance(data, TensorDataset):
        return tuple(data.tensors)
    if isinstance(data, DataLoader):
        sampler = data.batch_sampler.sampler if isinstance(data.batch_sampler, BatchSampler) else data.sampler
        return (data.dataset, data.collate_fn, data.drop_last, *sampling.parts_of(sampler))
    if isinstance(data, dict):
        return (*data, *data.values())
    return tuple(data) if isinstance(data, (tuple, list)) and len(data) <= _FEW else (data,)


_FEW = 16
