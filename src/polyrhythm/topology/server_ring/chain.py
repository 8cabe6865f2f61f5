"""The servers that can hold one part of the weights: a primary, and its successors on the ring."""

from __future__ import annotations

from collections.abc import Sequence

from polyrhythm.core.kernel.view import View
from polyrhythm.errors import WorkerFailed


class Chain:
    """The first of `members` that was not lost is the primary; what it has merged goes down to the last of the others."""

    def __init__(self, members: Sequence[str]) -> None:
        self.members = tuple(members)
        self._view = View.of(members)

    @property
    def living(self) -> tuple[str, ...]:
        """Those that were not lost, in order."""
        return self._view.members

    @property
    def primary(self) -> str:
        """The server that holds the part. Raises WorkerFailed where none is left."""
        living = self.living
        if not living:
            everyone = ", ".join(self.members)
            raise WorkerFailed(
                self.members[-1], f"it held the last copy of a part of the weights, which {everyone} had: take more replicas"
            )
        return living[0]

    def next(self, name: str) -> str | None:
        """The server to which `name` forwards what it was sent; None where it is the last."""
        living = self.living
        place = living.index(name) + 1
        return living[place] if place < len(living) else None

    def lose(self, name: str) -> bool:
        """Mark a server as lost. Returns true if it was one of these."""
        before, self._view = self._view, self._view.without(name)
        return self._view is not before


def chains(servers: Sequence[str], replicas: int) -> list[Chain]:
    """The chain of each server's part: itself and the next `replicas` on the ring, as far as there are others."""
    length = min(len(servers), replicas + 1)
    return [Chain([servers[(k + each) % len(servers)] for each in range(length)]) for k in range(len(servers))]
