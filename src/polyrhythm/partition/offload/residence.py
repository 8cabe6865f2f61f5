"""Which chunks are in memory: never more than the budget holds, chosen by the trace of the step before."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

from polyrhythm.errors import WorkloadError
from polyrhythm.partition.offload.eviction import ChunkKey, Eviction


class Residence:
    """The chunks in memory, of `budget` bytes at most; `load` and `drop` move one.

    `moved` counts chunks that were loaded and dropped, and `peak` is the most bytes that were in memory at once.
    """

    def __init__(self, budget: int, eviction: Eviction, load: Callable[[ChunkKey], int], drop: Callable[[ChunkKey], None]) -> None:
        self.budget, self.peak = budget, 0
        self.moved = Counter[str]()
        self._eviction, self._load, self._drop = eviction, load, drop
        self._nbytes: dict[ChunkKey, int] = {}
        self._used: dict[ChunkKey, int] = {}
        self._clock = self._at = self._length = 0
        self._now: dict[ChunkKey, list[int]] = {}
        self._before: dict[ChunkKey, list[int]] = {}

    @property
    def nbytes(self) -> int:
        """The bytes in memory."""
        return sum(self._nbytes.values())

    def use(self, keys: Sequence[tuple[ChunkKey, int]]) -> None:
        """Have these chunks, each with its bytes, in memory together. Raises WorkloadError where the budget does not hold them."""
        needed = dict(keys)
        if sum(needed.values()) > self.budget:
            raise WorkloadError(
                f"{sum(needed.values())} bytes are used at once, and Offload has a budget of {self.budget}: give it more, smaller chunks, "
                "or divide the model."
            )
        for key in needed:
            self._now.setdefault(key, []).append(self._at)
        for key, nbytes in needed.items():
            if key not in self._nbytes:
                self._make_room(nbytes, needed)
                self._load(key)
                self.moved["loaded"] += 1
                self._nbytes[key] = nbytes
                self.peak = max(self.peak, self.nbytes)
            self._used[key] = self._clock
        self._at += 1
        self._clock += 1

    def _make_room(self, nbytes: int, needed: dict[ChunkKey, int]) -> None:
        while self.nbytes + nbytes > self.budget:
            victim = self._eviction.victim({key: self._used[key] for key in self._nbytes if key not in needed}, self._next_use)
            self._drop(victim)
            self.moved["dropped"] += 1
            del self._nbytes[victim]

    def _next_use(self, key: ChunkKey) -> float:
        """The place in this step, or after its end in the next, where the step before has used the chunk."""
        places = self._before.get(key)
        if not places:
            return math.inf
        found = bisect_right(places, self._at)
        return places[found] if found < len(places) else self._length + places[0]

    def step_ends(self) -> None:
        """What was used in this step is what the next one will use."""
        self._before, self._length = self._now, self._at
        self._now, self._at = {}, 0
