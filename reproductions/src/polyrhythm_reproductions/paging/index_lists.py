"""Reads and updates of rows by key: one at a time, or many by a list of indices that was made beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class IndexList:
    """The places (rows,) of the rows of one batch of keys, made once, when the batch is known (Cui et al., 2016, section 4.2)."""

    places: Tensor


class KeyedRows:
    """Rows (keys, columns) by key, as a parameter server's tables have them.

    `read` and `update` take an `IndexList` for a whole batch. A virtual iteration gives the keys of every batch in order, and `prepare`
    makes its list once; `read_each` and `update_each` look every key up, which is what that saves.
    """

    def __init__(self, keys: Sequence[str], rows: Tensor) -> None:
        if len(keys) != len(rows) or len(set(keys)) != len(keys):
            raise CompositionError(f"{len(keys)} keys were given for {len(rows)} rows: give each row one key, and no key twice.")
        self.places: Mapping[str, int] = {key: place for place, key in enumerate(keys)}
        self.rows = rows

    def prepare(self, keys: Sequence[str]) -> IndexList:
        """The list of a batch. Raises CompositionError for a key that does not exist."""
        unknown = [key for key in keys if key not in self.places]
        if unknown:
            raise CompositionError(f"There is no row of {unknown[0]!r} among the {len(self.places)}: give keys that there are.")
        return IndexList(torch.tensor([self.places[key] for key in keys], dtype=torch.int64))

    def read(self, batch: IndexList) -> Tensor:
        """The rows of a batch (rows, columns), in memory of their own."""
        return self.rows.index_select(0, batch.places)

    def update(self, batch: IndexList, values: Tensor) -> None:
        """Add `values` (rows, columns) to the rows of a batch."""
        self.rows.index_add_(0, batch.places, values)

    def read_each(self, keys: Sequence[str]) -> Tensor:
        """Read the rows key by key."""
        return torch.stack([self.rows[self.places[key]] for key in keys])

    def update_each(self, keys: Sequence[str], values: Tensor) -> None:
        """Add `values` to the rows key by key."""
        for key, value in zip(keys, values, strict=True):
            self.rows[self.places[key]] += value
