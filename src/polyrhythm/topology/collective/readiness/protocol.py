"""The negotiation of readiness, in cycles in which all workers take part, whether or not they have something new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port


class ReadyTensor(NamedTuple):
    """A tensor whose gradient this worker has computed, and what must be alike at all workers: its type and shape."""

    name: str
    signature: str


class Negotiator(Protocol):
    """One worker's side of the negotiation."""

    async def negotiate(self, ready: Sequence[ReadyTensor]) -> list[str]:
        """One cycle: `ready` are all that were computed and not released yet. Returns the names that are now released.

        The list is the same at all workers, in the same order, and each name on it is ready at each of them.
        """


class Readiness(Protocol):
    """Frozen settings; makes a negotiator for a worker."""

    def negotiator(self, port: Port, group: Group) -> Negotiator:
        """A worker's side, with topics below those of `port`."""
