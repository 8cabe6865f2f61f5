"""Plans the blocks that stay in fast memory, and the distance ahead at which the others are fetched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.paging.trace import AccessTrace


@dataclass(frozen=True)
class MemoryPlan:
    """`pinned` blocks stay. During operation i the blocks of operations i to `ahead[i]` are there or on their way, and no others.

    `ahead` counts on past the last operation into the next iteration. `peak` are the most bytes that are there at once.
    """

    trace: AccessTrace
    pinned: frozenset[str]
    ahead: tuple[int, ...]
    peak: int

    @cached_property
    def windows(self) -> list[dict[str, None]]:
        """For each operation the blocks that are in memory or on their way during it, without the pinned ones, in the order of use."""
        count = len(self.trace.operations)
        needed = [sorted(footprint - self.pinned) for footprint in self.trace.footprints]
        return [
            dict.fromkeys(block for k in range(first, last + 1) for block in needed[k % count]) for first, last in enumerate(self.ahead)
        ]


def plan_memory(trace: AccessTrace, budget: int) -> MemoryPlan:
    """A plan whose peak is at most `budget` bytes (Cui et al., 2016, section 4.3).

    Blocks are pinned that are used most often for their size, as long as what remains holds the others of any two operations in
    succession: one is computed while those of the next are fetched. Where even that does not fit, one operation at a time. Raises
    CompositionError for a budget below what a single operation needs.
    """
    least = max(map(trace.nbytes, trace.footprints), default=0)
    if budget < least:
        raise CompositionError(
            f"A budget of {budget} bytes of fast memory is not enough for one operation, which needs {least}: give at least that, or make "
            "batches smaller."
        )
    pairs = _pairs(trace.footprints)
    spans = pairs if max(map(trace.nbytes, pairs), default=0) <= budget else trace.footprints
    pinned = _pinned(trace, spans, budget)
    ahead = _ahead(trace, pinned, budget - trace.nbytes(pinned))
    staged = max(map(trace.nbytes, MemoryPlan(trace, pinned, ahead, 0).windows), default=0)
    return MemoryPlan(trace, pinned, ahead, trace.nbytes(pinned) + staged)


def _pairs(footprints: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    return [each | after for each, after in zip(footprints, (*footprints[1:], *footprints[:1]), strict=True)]


def _pinned(trace: AccessTrace, spans: Sequence[frozenset[str]], budget: int) -> frozenset[str]:
    """The most used first, of equals the first to be used; a block for which there is no room is passed over."""
    uses = Counter(block for footprint in trace.footprints for block in sorted(footprint))
    first = {block: k for k, block in reversed(list(enumerate(block for each in trace.footprints for block in sorted(each))))}
    left = [trace.nbytes(span) for span in spans]
    pinned, held = set[str](), 0
    for block in sorted(uses, key=lambda block: (-uses[block], first[block])):
        size = trace.sizes[block]
        staged = max(each - size if block in span else each for each, span in zip(left, spans, strict=True))
        if held + size + staged <= budget:
            pinned.add(block)
            held += size
            left = [each - size if block in span else each for each, span in zip(left, spans, strict=True)]
    return frozenset(pinned)


def _ahead(trace: AccessTrace, pinned: frozenset[str], room: int) -> tuple[int, ...]:
    """For each operation the last one whose blocks fit together with those of all before it."""
    count = len(trace.operations)
    needed = [footprint - pinned for footprint in trace.footprints]
    ends = []
    for k in range(count):
        there, used, end = set(needed[k]), trace.nbytes(needed[k]), k
        while end + 1 < k + count:
            more = needed[(end + 1) % count] - there
            if used + trace.nbytes(more) > room:
                break
            there, used, end = there | more, used + trace.nbytes(more), end + 1
        ends.append(end)
    return tuple(ends)
