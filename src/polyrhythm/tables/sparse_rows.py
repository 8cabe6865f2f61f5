"""Rows of which only the elements that were ever added to are kept and sent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.row_kind import RowLeases, RowStore
from polyrhythm.core.settings import checked
from polyrhythm.tables.no_leases import NoLeases
from polyrhythm.tables.values import checked_type, matching

Elements = tuple[Tensor, Tensor]
"""The columns (k,) of a row's elements, ascending, and their values (k,)."""


@dataclass(frozen=True, slots=True)
@checked
class SparseRows:
    """Only elements that were added to are kept and sent: for rows that are mostly zero, such as counts of words by topic.

    A packet is the number of elements of each row (n,), their columns, and their values, one row after the other. Users see sparse tensors.
    """

    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        checked_type("SparseRows", self.dtype)

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
        """An empty store, which keeps each row separately."""
        return SparseStore(self.dtype)

    def packed(self, values: Tensor, columns: int) -> Packet:
        """The elements that a sparse tensor has, or those of a dense one that are not zero."""
        given = matching(values, columns, self.dtype)
        elements = (given if given.is_sparse else given.to_sparse()).coalesce()
        rows, places = elements.indices()
        return _counted(rows, len(given)), places.to(torch.int32), elements.values().to(self.dtype, copy=True)

    def unpacked(self, packet: Packet, columns: int) -> Tensor:
        """A sparse tensor (n, columns)."""
        counts, places, values = packet
        rows = torch.repeat_interleave(torch.arange(len(counts)), counts.long())
        shape = (len(counts), columns)
        return torch.sparse_coo_tensor(torch.stack([rows, places.long()]), values, shape, check_invariants=False, is_coalesced=True)

    def take(self, packet: Packet, places: Tensor) -> Packet:
        rows = _parted(packet)
        return _joined([rows[k] for k in places.tolist()], self.dtype)

    def flat(self, packet: Packet, columns: int) -> Tensor:
        return self.unpacked(packet, columns).to_dense().reshape(-1)

    def named(self, name: str, packet: Packet, columns: int) -> dict[str, Tensor]:
        """The rows and columns of the elements (2, k), and their values (k,)."""
        whole = self.unpacked(packet, columns)
        return {f"{name}.indices": whole.indices(), f"{name}.values": whole.values()}


class SparseStore:
    """The elements of each row."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.rows: dict[int, Elements] = {}

    @property
    def held(self) -> Tensor:
        return torch.tensor(sorted(self.rows), dtype=torch.int64)

    def holds(self, rows: Tensor) -> Tensor:
        return torch.tensor([row in self.rows for row in rows.tolist()], dtype=torch.bool)

    def read(self, rows: Tensor) -> Packet:
        nothing = torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=self.dtype)
        return _joined([self.rows.get(row, nothing) for row in rows.tolist()], self.dtype)

    def put(self, rows: Tensor, packet: Packet) -> None:
        self.rows.update(zip(rows.tolist(), _parted(packet), strict=True))

    def add(self, rows: Tensor, packet: Packet) -> None:
        for row, elements in zip(rows.tolist(), _parted(packet), strict=True):
            self.rows[row] = _sum(self.rows[row], elements) if row in self.rows else elements

    def keep(self, rows: Tensor) -> None:
        self.rows = {row: self.rows[row] for row in rows.tolist()}


def _sum(one: Elements, other: Elements) -> Elements:
    columns, places = torch.cat([one[0], other[0]]).unique(return_inverse=True)  # type: ignore[no-untyped-call]
    values = one[1].new_zeros(len(columns)).index_add_(0, places, torch.cat([one[1], other[1]]))
    return columns, values


def _counted(rows: Tensor, count: int) -> Tensor:
    return torch.bincount(rows, minlength=count).to(torch.int32)


def _parted(packet: Packet) -> list[Elements]:
    counts, places, values = packet
    sizes = counts.tolist()
    return list(zip(torch.split(places, sizes), torch.split(values, sizes), strict=True))


def _joined(rows: list[Elements], dtype: torch.dtype) -> Packet:
    counts = torch.tensor([len(columns) for columns, _ in rows], dtype=torch.int32)
    if not rows:
        return counts, torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=dtype)
    return counts, torch.cat([columns for columns, _ in rows]), torch.cat([values for _, values in rows])
