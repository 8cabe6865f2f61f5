"""The user's data set as a shuffle sees it."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from polyrhythm.errors import DataError


class TensorSource:
    """Tensors of equal length: a batch is one indexing of each."""

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        if len({len(tensor) for tensor in tensors}) != 1:
            raise DataError(f"The tensors have lengths {[len(t) for t in tensors]}: give tensors with one entry per sample each.")
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors[0])

    def batch(self, indices: list[int]) -> tuple[Tensor, ...]:
        """The samples of `indices`, stacked."""
        return tuple(tensor[indices] for tensor in self.tensors)


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
    """The source for a Dataset, a tuple of tensors, or a DataLoader (its data set and collate function; the sharing out is ours).

    Raises DataError for data without a length.
    """
    if isinstance(data, TensorDataset):
        return TensorSource(data.tensors)
    if isinstance(data, (tuple, list)) and data and all(isinstance(part, Tensor) for part in data):
        return TensorSource(tuple(data))
    if isinstance(data, DataLoader):
        return MapSource(data.dataset, data.collate_fn)
    if isinstance(data, IterableDataset) or not isinstance(data, Sized) or not hasattr(data, "__getitem__"):
        raise DataError(
            f"{type(data).__name__} has no length or no index, so it cannot be shared out: give a map-style Dataset or tensors."
        )
    return MapSource(data, default_collate)
