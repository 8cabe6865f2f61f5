"""Rows of counts of which the servers know which worker has added them, so that others can take over what a lost one has."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.row_kind import RowKind, RowLeases, RowStore
from polyrhythm.core.settings import checked
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.tables.dense_rows import DenseRows

_COUNTS = DenseRows(torch.int64)


@dataclass(frozen=True, slots=True)
@checked
class Leased:
    """Rows of whole numbers, kept as those of `row`; a server also knows what each worker has added to them.

    What a table begins with is free, as is what a worker had that has left or was lost. `Table.adopt` takes of it, `Table.release`
    gives up. Neither changes the content: the sum of a row stays what it is while its units change hands. Servers keep the rows twice.
    """

    row: RowKind = _COUNTS

    def __post_init__(self) -> None:
        if self.row.leased or self.row.dtype.is_floating_point:
            raise CompositionError(
                f"Leased({self.row!r}) cannot be: what changes hands is counted in units. Give rows of whole numbers, such as "
                "pr.tables.DenseRows(torch.int64)."
            )

    @property
    def dtype(self) -> torch.dtype:
        return self.row.dtype

    @property
    def inner(self) -> RowKind:
        return self.row

    @property
    def leased(self) -> bool:
        return True

    def store(self, rows: int, columns: int) -> RowStore:
        return self.row.store(rows, columns)

    def leases(self, rows: int, columns: int) -> RowLeases:
        """What each worker has, and what is free, in stores of `row`."""
        return KeptLeases(self.row, rows, columns)

    def packed(self, values: Tensor, columns: int) -> Packet:
        return self.row.packed(values, columns)

    def unpacked(self, packet: Packet, columns: int) -> Tensor:
        return self.row.unpacked(packet, columns)

    def take(self, packet: Packet, places: Tensor) -> Packet:
        return self.row.take(packet, places)

    def flat(self, packet: Packet, columns: int) -> Tensor:
        return self.row.flat(packet, columns)

    def named(self, name: str, packet: Packet, columns: int) -> dict[str, Tensor]:
        return self.row.named(name, packet, columns)


class KeptLeases:
    """`free` is what nobody has, `held` what each worker has, and `answers` the number and the result of each one's last adoption."""

    def __init__(self, kind: RowKind, rows: int, columns: int) -> None:
        self.kind, self.rows, self.columns = kind, rows, columns
        self.free = kind.store(rows, columns)
        self.held: dict[str, RowStore] = {}
        self.answers: dict[str, tuple[int, Packet]] = {}

    def begin(self, rows: Tensor, packet: Packet) -> None:
        self.free.put(rows, packet)

    def add(self, name: str, rows: Tensor, packet: Packet) -> None:
        if name not in self.held:
            self.held[name] = self.kind.store(self.rows, self.columns)
        self.held[name].add(rows, packet)

    def release(self, name: str, rows: Tensor, packet: Packet) -> None:
        self.add(name, rows, self.kind.packed(-self._dense(packet), self.columns))
        self.free.add(rows, packet)

    def adopt(self, name: str, number: int, rows: Tensor, packet: Packet) -> Packet:
        last, answer = self.answers.get(name, (0, ()))
        if last != number:
            taken = nearest(self._dense(self.free.read(rows)), self._dense(packet))
            self.free.add(rows, self.kind.packed(-taken, self.columns))
            answer = self.kind.packed(taken, self.columns)
            self.add(name, rows, answer)
            self.answers[name] = number, answer
        return answer

    def end(self, present: Collection[str]) -> None:
        for name in [each for each in self.held if each not in present]:
            gone = self.held.pop(name)
            self.free.add(gone.held, gone.read(gone.held))
        self.answers = {name: answer for name, answer in self.answers.items() if name in present}

    def export(self) -> StateTree:
        return {
            "free": (self.free.held, self.free.read(self.free.held)),
            "held": {name: (store.held, store.read(store.held)) for name, store in self.held.items()},
            "answers": self.answers,
        }

    def restore(self, state: StateTree) -> None:
        self.free.keep(self.free.held[:0])
        self.free.put(*state["free"])
        self.held = {}
        for name, content in state["held"].items():
            self.add(name, *content)
        self.answers = {name: (number, tuple(packet)) for name, (number, packet) in state["answers"].items()}

    def _dense(self, packet: Packet) -> Tensor:
        return self.kind.flat(packet, self.columns).view(-1, self.columns)


def nearest(free: Tensor, wanted: Tensor) -> Tensor:
    """Of `free` (n, columns) what is `wanted`; instead of what is not there as many others of the row, in proportion to what is left."""
    free = free.clamp(min=0)
    exact = torch.minimum(free, wanted)
    left = free - exact
    room = left.sum(dim=1, keepdim=True)
    more = torch.minimum((wanted - exact).sum(dim=1, keepdim=True), room)
    # units at evenly spaced places of the row: the differences of rounded multiples add up to `more`, and none is above what is left
    ends = torch.div(left.cumsum(dim=1) * more, room.clamp(min=1), rounding_mode="floor")
    return exact + torch.diff(ends, dim=1, prepend=torch.zeros_like(room)).to(free.dtype)
