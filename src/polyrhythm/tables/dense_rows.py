"""Rows of which every element is kept and sent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.row_kind import RowLeases, RowStore
from polyrhythm.core.settings import checked
from polyrhythm.tables.no_leases import NoLeases
from polyrhythm.tables.values import checked_type, matching

_LEAST = 16
"""The rows for which a store first allocates memory; later it doubles."""


@dataclass(frozen=True, slots=True)
@checked
class DenseRows:
    """Every element of a row is kept and sent. A packet is one tensor (n, columns)."""

    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        checked_type("DenseRows", self.dtype)

    @property
    def inner(self) -> None:
        return None

    @property
    def leased(self) -> bool:
        return False

    def leases(self, rows: int, columns: int) -> RowLeases:
        """Nothing is kept."""
        return NoLeases()

    def store(self, rows: int, columns: int) -> RowStore:
        """An empty store, which allocates memory as rows come."""
        return DenseStore(rows, columns, self.dtype)

    def packed(self, values: Tensor, columns: int) -> Packet:
        """A dense copy of the values, in the type of the table."""
        given = matching(values, columns, self.dtype)
        return ((given.to_dense() if given.is_sparse else given).to(self.dtype, copy=True).contiguous(),)

    def unpacked(self, packet: Packet, columns: int) -> Tensor:
        return packet[0]

    def take(self, packet: Packet, places: Tensor) -> Packet:
        return (packet[0][places],)

    def flat(self, packet: Packet, columns: int) -> Tensor:
        return packet[0].reshape(-1)

    def named(self, name: str, packet: Packet, columns: int) -> dict[str, Tensor]:
        """One tensor (rows, columns), under `name`."""
        return {name: packet[0]}


class DenseStore:
    """`places` has, for each row of the table, where it is among `values`, or -1; `owners` the row of each place."""

    def __init__(self, rows: int, columns: int, dtype: torch.dtype) -> None:
        self.places = torch.full((rows,), -1)
        self.owners = torch.empty(0, dtype=torch.int64)
        self.values = torch.empty(0, columns, dtype=dtype)
        self.count = 0

    @property
    def held(self) -> Tensor:
        return self.owners[: self.count].sort().values

    def holds(self, rows: Tensor) -> Tensor:
        return self.places[rows] >= 0

    def read(self, rows: Tensor) -> Packet:
        places = self.places[rows]
        if not self.count:
            return (self.values.new_zeros(len(rows), self.values.shape[1]),)
        found = self.values[places.clamp(min=0)]
        found[places < 0] = 0
        return (found,)

    def put(self, rows: Tensor, packet: Packet) -> None:
        self._make_room(rows)
        self.values[self.places[rows]] = packet[0]

    def add(self, rows: Tensor, packet: Packet) -> None:
        self._make_room(rows)
        self.values.index_add_(0, self.places[rows], packet[0])

    def keep(self, rows: Tensor) -> None:
        kept = self.values[self.places[rows]]
        self.places[self.owners[: self.count]] = -1
        self.values, self.owners, self.count = kept, rows.clone(), len(rows)
        self.places[rows] = torch.arange(len(rows))

    def _make_room(self, rows: Tensor) -> None:
        fresh = rows[self.places[rows] < 0]
        if not len(fresh):
            return
        fresh = fresh.unique()  # type: ignore[no-untyped-call]
        needed = self.count + len(fresh)
        if needed > len(self.owners):
            room = min(len(self.places), max(needed, 2 * len(self.owners), _LEAST))
            values, owners = self.values.new_empty(room, self.values.shape[1]), self.owners.new_empty(room)
            values[: self.count], owners[: self.count] = self.values[: self.count], self.owners[: self.count]
            self.values, self.owners = values, owners
        self.places[fresh] = torch.arange(self.count, needed)
        self.values[self.count : needed] = 0
        self.owners[self.count : needed] = fresh
        self.count = needed
