"""A worker's cache of the rows that it has read of a table, each with the clock up to which it contains the others' updates."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.tables.records import ReadStatus
from polyrhythm.core.tables.shape import TableShape

_NEVER = -1


class RowCache:
    """Keeps the `bound` most recently used rows between two reads; all that were read where it is None.

    By row: `known` is the slowest visible clock at the time it was read, `versions` the server's version, `read_at` the worker's own clock,
    and `used` a count of uses.
    """

    def __init__(self, shape: TableShape, bound: int | None) -> None:
        self.store = shape.kind.store(shape.rows, shape.columns)
        self.bound = bound
        self.known = torch.zeros(shape.rows, dtype=torch.float64)
        self.versions = torch.full((shape.rows,), _NEVER)
        self.read_at = torch.full((shape.rows,), _NEVER)
        self.used = torch.zeros(shape.rows, dtype=torch.int64)
        self.uses = 0

    def stale(self, rows: Tensor, clock: int, must_read: Callable[[int, float], bool]) -> Tensor:
        """The rows, each given once, that must be read at `clock`: those not in the cache, and those older than the bound allows."""
        absent, earlier = ~self.store.holds(rows), self.read_at[rows] < clock
        known, places = self.known[rows].unique(return_inverse=True)  # type: ignore[no-untyped-call]
        old = torch.tensor([must_read(clock, each) for each in known.tolist()], dtype=torch.bool)
        return rows[absent | (earlier & old[places])] if len(rows) else rows

    def since(self, rows: Tensor) -> Tensor:
        """The server's version of each row that is held, -1 of the others."""
        return torch.where(self.store.holds(rows), self.versions[rows], _NEVER)

    def learn(self, asked: Tensor, clock: int, status: ReadStatus) -> None:
        """Note that the `asked` rows are now as the server has them."""
        self.known[asked], self.versions[asked], self.read_at[asked] = status.slowest, status.version, clock

    def use(self, rows: Tensor) -> Packet:
        """The values of `rows`, which must be held; afterwards the least recently used rows beyond the bound are dropped."""
        self.uses += 1
        self.used[rows] = self.uses
        found = self.store.read(rows)
        held = self.store.held
        if self.bound is not None and len(held) > self.bound:
            order = self.used[held].sort(descending=True, stable=True).indices
            self.store.keep(held[order[: self.bound]].sort().values)
        return found
