"""Vector clocks of ranges of keys: which step of each worker has been applied to each key, at the cost of the ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from polyrhythm.core.protocols.division import Stretch
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError


class RangeClocks:
    """For keys 0 to `numel` - 1, the last step of each of `workers` that was applied (Li et al., OSDI 2014, section 3.3).

    Keys whose clocks are equal lie in one range. A range is split where a step ends inside it, and neighbours are merged when they become
    equal; so there are at most two ranges more for each call of `advance`, and as few as the clocks allow. Workers that push all keys at
    each step leave one.

    Examples:
        >>> clocks = RangeClocks(10, ["worker/0", "worker/1"])
        >>> [clocks.advance("worker/0", 1, keys) for keys in ((2, 6), (4, 8))], clocks.ranges
        ([[(2, 6)], [(6, 8)]], [(0, 2), (2, 8), (8, 10)])
    """

    def __init__(self, numel: int, workers: Sequence[str]) -> None:
        self._numel = numel
        self._places = {name: k for k, name in enumerate(workers)}
        self._starts = [0]
        self._vectors: list[tuple[int, ...]] = [(0,) * len(workers)]

    @property
    def ranges(self) -> list[Stretch]:
        """The first key of each range and the one after its last, in order."""
        return list(zip(self._starts, [*self._starts[1:], self._numel], strict=True)) if self._numel else []

    def clock(self, worker: str, key: int) -> int:
        """The last step of `worker` that was applied to `key`; 0 before the first."""
        return self._vectors[bisect_right(self._starts, key) - 1][self._places[worker]]

    def slowest(self, worker: str) -> int:
        """The last step of `worker` that was applied to all keys."""
        place = self._places[worker]
        return min(vector[place] for vector in self._vectors)

    def advance(self, worker: str, clock: int, keys: Stretch) -> list[Stretch]:
        """Step `clock` of `worker` is about to be applied to `keys`: the ranges of them where it was not yet. Steps come in order.

        Raises CompositionError for keys that do not exist.
        """
        start, end = keys
        if not 0 <= start <= end <= self._numel:
            raise CompositionError(f"Keys {start} to {end} were given of {self._numel}: give a range of those that there are.")
        if start == end:
            return []
        first, last = self._split(start), self._split(end)
        place = self._places[worker]
        fresh = [k for k in range(first, last) if self._vectors[k][place] < clock]
        found = [(self._starts[k], self._end(k)) for k in fresh]
        for k in fresh:
            vector = self._vectors[k]
            self._vectors[k] = (*vector[:place], clock, *vector[place + 1 :])
        self._merge(max(0, first - 1), min(last + 1, len(self._starts)))
        return _joined(found)

    def export(self) -> StateTree:
        return {"starts": list(self._starts), "vectors": [list(vector) for vector in self._vectors]}

    def restore(self, state: StateTree) -> None:
        """Take over an exported state, of the same keys and workers."""
        self._starts, self._vectors = list(state["starts"]), [tuple(vector) for vector in state["vectors"]]

    def _end(self, k: int) -> int:
        return self._starts[k + 1] if k + 1 < len(self._starts) else self._numel

    def _split(self, key: int) -> int:
        """The number of the range that begins with `key`, made if there is none; one after the last where no key is left."""
        if key == self._numel:
            return len(self._starts)
        k = bisect_left(self._starts, key)
        if k == len(self._starts) or self._starts[k] != key:
            self._starts.insert(k, key)
            self._vectors.insert(k, self._vectors[k - 1])
        return k

    def _merge(self, first: int, last: int) -> None:
        """Merge neighbours that are equal among the ranges `first` to `last` - 1."""
        kept = [k for k in range(first, last) if k == first or self._vectors[k] != self._vectors[k - 1]]
        starts, vectors = [self._starts[k] for k in kept], [self._vectors[k] for k in kept]
        self._starts[first:last], self._vectors[first:last] = starts, vectors


def _joined(stretches: Sequence[Stretch]) -> list[Stretch]:
    """Those that touch as one."""
    joined: list[Stretch] = []
    for start, end in stretches:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
