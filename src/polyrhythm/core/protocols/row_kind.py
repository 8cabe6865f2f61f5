"""Protocols of the rows of a table: their storage, addition, packets, and form for the user.

Members are in `tables`. Caches and shards of `core.tables` use them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.trees import StateTree


class RowStore(Protocol):
    """Some rows of a table, by number; a row that it does not hold is zero. Rows are given as numbers (n,) of int64."""

    @property
    def held(self) -> Tensor:
        """The numbers of the rows that it holds, ascending."""

    def holds(self, rows: Tensor) -> Tensor:
        """For each of `rows`, True if it is held (n,)."""

    def read(self, rows: Tensor) -> Packet:
        """Copies of these rows, as a packet."""

    def put(self, rows: Tensor, packet: Packet) -> None:
        """Replace these rows, each of them given once."""

    def add(self, rows: Tensor, packet: Packet) -> None:
        """Add to these rows; one that is given twice is added to twice, in order."""

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""


class RowLeases(Protocol):
    """Whose the content of a server's rows is: each worker, known by name, has what it has added; what nobody has is free.

    Law: the content of the rows is what the workers have and what is free, together; none of these methods changes it.
    """

    def begin(self, rows: Tensor, packet: Packet) -> None:
        """Free is what the rows begin with."""

    def add(self, name: str, rows: Tensor, packet: Packet) -> None:
        """Note what a worker has added."""

    def release(self, name: str, rows: Tensor, packet: Packet) -> None:
        """Free this much of what a worker has."""

    def adopt(self, name: str, number: int, rows: Tensor, packet: Packet) -> Packet:
        """Give a worker of these rows, each given once, what is free, as near as possible to `packet`; the result is what it gets.

        The same `number` again, of a worker that has not received the answer, has the same result and gives nothing more.
        """

    def end(self, present: Collection[str]) -> None:
        """Free what all have that are not `present` any more."""

    def export(self) -> StateTree:
        """The state as a tree."""

    def restore(self, state: StateTree) -> None:
        """Continue from what `export` gave."""


class RowKind(Protocol):
    """A kind of rows. Settings are frozen.

    Law: what is added to a store is read from it, whatever the order of rows; `take` of a packet is the packet of the rows that are taken;
    `unpacked` of `packed` are the values that were given.
    """

    @property
    def dtype(self) -> torch.dtype:
        """The type of every element."""

    @property
    def inner(self) -> RowKind | None:
        """The kind that it wraps, if it does."""

    @property
    def leased(self) -> bool:
        """True if servers know whose the content of rows is, so that it can be adopted and released."""

    def store(self, rows: int, columns: int) -> RowStore:
        """An empty store for rows of a table of that shape."""

    def leases(self, rows: int, columns: int) -> RowLeases:
        """Whose the content is of rows of a table of that shape: a server has these beside its store."""

    def packed(self, values: Tensor, columns: int) -> Packet:
        """The packet of `values` (n, columns), dense or sparse. Raises WorkloadError for values that are no such rows."""

    def unpacked(self, packet: Packet, columns: int) -> Tensor:
        """The rows (n, columns) as the user sees them."""

    def take(self, packet: Packet, places: Tensor) -> Packet:
        """The packet of the rows at `places` (m,) of this packet."""

    def flat(self, packet: Packet, columns: int) -> Tensor:
        """The rows as one dense vector (n columns,)."""

    def named(self, name: str, packet: Packet, columns: int) -> dict[str, Tensor]:
        """The whole table as dense tensors by name, as the weights of a run are saved."""
