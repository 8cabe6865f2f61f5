"""Which chunk leaves memory when another one needs its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

ChunkKey = tuple[str, int]
"""What the chunk is of, "weights" or a state of the optimizer, and its number."""


class Eviction(Protocol):
    """A choice among the chunks that may leave."""

    def victim(self, used: Mapping[ChunkKey, int], next_use: Callable[[ChunkKey], float]) -> ChunkKey:
        """The one that leaves: `used` says when each was used last, and `next_use` when it will be, as far as is known."""


@dataclass(frozen=True, slots=True)
class FurthestUse:
    """The chunk whose next use is the furthest in the future (Belady, 1966), by the trace of the step before."""

    def victim(self, used: Mapping[ChunkKey, int], next_use: Callable[[ChunkKey], float]) -> ChunkKey:
        return max(used, key=lambda key: (next_use(key), -used[key]))


@dataclass(frozen=True, slots=True)
class LeastRecentUse:
    """The chunk whose last use is the longest ago."""

    def victim(self, used: Mapping[ChunkKey, int], next_use: Callable[[ChunkKey], float]) -> ChunkKey:
        return min(used, key=lambda key: used[key])
