"""Rows of which nobody needs to know whose their content is."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor

from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.trees import StateTree


class NoLeases:
    """Keeps nothing; `Table` refuses to adopt or release rows of such a kind."""

    def begin(self, rows: Tensor, packet: Packet) -> None:
        pass

    def add(self, name: str, rows: Tensor, packet: Packet) -> None:
        pass

    def release(self, name: str, rows: Tensor, packet: Packet) -> None:
        raise AssertionError("rows without leases are never released")

    def adopt(self, name: str, number: int, rows: Tensor, packet: Packet) -> Packet:
        raise AssertionError("rows without leases are never adopted")

    def end(self, present: Collection[str]) -> None:
        pass

    def export(self) -> StateTree:
        return None

    def restore(self, state: StateTree) -> None:
        pass
