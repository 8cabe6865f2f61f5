"""The arguments of `worker.batches`, and the facts about them that a checkpoint records, so that a resumed run continues with the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from polyrhythm.core.protocols.deals import Begin, PassDeals, continued
from polyrhythm.core.protocols.sharded import ShardedSource
from polyrhythm.core.protocols.shuffle import Batch
from polyrhythm.core.settings import shown
from polyrhythm.core.training.data.shards import PLAIN
from polyrhythm.core.training.loops import DataFacts
from polyrhythm.core.training.numbers import is_whole
from polyrhythm.errors import DataError

PassBatches = Callable[[PassDeals, int], Iterator[Batch]]
"""Makes the batches of a pass from its deals and the number of those that were taken, which come once more, perhaps empty."""


@dataclass(frozen=True, slots=True)
class DataRequest:
    """The arguments of `Worker.batches`. Raises DataError for `steps` that is no number of batches."""

    data: Any
    batch_size: int | None
    steps: int | None

    def __post_init__(self) -> None:
        if self.steps is None:
            return
        if not is_whole(self.steps) or index(self.steps) < 1:
            raise DataError(f"steps={shown(self.steps)} is not a number of batches: give 1 or more, or leave it out.")

    def passes(self, begin: Begin[Batch]) -> PassBatches:
        """Passes that `begin` makes, of at most `steps` batches."""
        return lambda deals, taken: islice(continued(begin, deals, taken, (0, None)), self.steps)


def facts_of(data: Any, batch_size: int) -> DataFacts:
    """The facts about `data` that a checkpoint records."""
    if isinstance(data, DataLoader):
        inner = facts_of(data.dataset, batch_size)
        if isinstance(data.dataset, (ShardedSource, IterableDataset)):
            return inner
        drawn: Any = data.sampler if data.batch_sampler is None else getattr(data.batch_sampler, "sampler", None)
        return inner if inner.samples < 0 or drawn is None else inner._replace(samples=len(drawn))
    if type(data) not in PLAIN and isinstance(data, ShardedSource):
        return DataFacts(type(data).__name__, -1 if data.samples is None else data.samples, batch_size, "")
    tensors = _tensors(data)
    if tensors:
        return DataFacts("tensors", len(tensors[0]), batch_size, _digest(tensors))
    return DataFacts(type(data).__name__, len(data) if isinstance(data, Sized) else -1, batch_size, "")


def _tensors(data: Any) -> list[Any]:
    if isinstance(data, TensorDataset):
        return list(data.tensors)
    if isinstance(data, (tuple, list, dict)):
        parts = list(data.values() if isinstance(data, dict) else data)
        return parts if parts and all(isinstance(part, (Tensor, np.ndarray)) for part in parts) else []
    return []


def _digest(tensors: list[Any]) -> str:
    """A digest of a few elements of each tensor: enough to notice other data, at a cost that is small next to a pass."""
    found = blake2b(digest_size=8)
    for given in tensors:
        tensor = torch.as_tensor(given)
        rows = tensor[:: max(1, len(tensor) // _ROWS)] if tensor.dim() else tensor
        some = rows.reshape(len(rows), -1)[:, :: max(1, rows[0].numel() // _ELEMENTS)] if len(tensor) else tensor
        found.update(repr((tensor.dtype, tuple(tensor.shape), some.tolist())).encode())
    return found.hexdigest()


_ROWS, _ELEMENTS = 16, 16
