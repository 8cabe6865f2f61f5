"""Vector clocks of ranges against one clock for each key and worker."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError
from polyrhythm.topology.server_ring.range_clocks import RangeClocks

KEYS, WORKERS = 60, ("worker/0", "worker/1", "worker/2")
steps = st.tuples(st.sampled_from(range(len(WORKERS))), st.integers(0, KEYS), st.integers(0, KEYS))


def runs(dense: np.ndarray) -> int:
    """As few ranges as hold the clocks (workers, keys)."""
    return 1 + int((dense[:, 1:] != dense[:, :-1]).any(axis=0).sum())


@settings(max_examples=100, deadline=None)
@given(given=st.lists(steps, max_size=30))
def test_ranges_contain_what_a_clock_for_each_key_contains_and_are_as_few_as_can_be(given: list[tuple[int, int, int]]) -> None:
    clocks, dense = RangeClocks(KEYS, WORKERS), np.zeros((len(WORKERS), KEYS), int)
    for number, (worker, one, other) in enumerate(given, 1):
        start, end = min(one, other), max(one, other)
        clock = 1 + number // 4  # some steps come again
        fresh = [key for key in range(start, end) if dense[worker, key] < clock]
        found = clocks.advance(WORKERS[worker], clock, (start, end))
        assert [key for first, last in found for key in range(first, last)] == fresh
        dense[worker, fresh] = clock
        assert all(clocks.clock(name, key) == dense[k, key] for k, name in enumerate(WORKERS) for key in range(KEYS))
        assert len(clocks.ranges) == runs(dense) <= 1 + 2 * number
        assert [clocks.slowest(name) for name in WORKERS] == dense.min(axis=1).tolist()
    again = RangeClocks(KEYS, WORKERS)
    again.restore(clocks.export())
    assert again.ranges == clocks.ranges
    assert again.export() == clocks.export()


def test_cost_is_that_of_ranges_and_not_of_keys() -> None:
    clocks = RangeClocks(10**12, WORKERS)
    for step in range(1, 200):
        for number, name in enumerate(WORKERS):
            clocks.advance(name, step, (number * 10**11, (number + 5) * 10**11))
    assert len(clocks.ranges) == 6
    for name in WORKERS:
        clocks.advance(name, 200, (0, 10**12))
    assert clocks.ranges == [(0, 10**12)]


def test_keys_that_there_are_not_are_refused() -> None:
    with pytest.raises(CompositionError, match="give a range"):
        RangeClocks(4, WORKERS).advance("worker/0", 1, (2, 5))
    assert RangeClocks(0, WORKERS).ranges == []
