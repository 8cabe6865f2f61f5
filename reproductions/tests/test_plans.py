"""A plan fits its budget, holds what each operation needs, and hides copies that take less time than computing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.paging import (
    AccessTrace,
    TracedOperation,
    Transfers,
    demand_seconds,
    plan_memory,
    planned_seconds,
    unlimited_seconds,
)

COPIES = Transfers(100.0)


def sweeps(layers: int, times: int, size: int = 100) -> AccessTrace:
    """Layers that are read in the same order again and again, as those of a recurrent network."""
    operations = tuple(TracedOperation(f"{t}/{k}", (f"w{k}",)) for t in range(times) for k in range(layers))
    return AccessTrace(operations, {f"w{k}": size for k in range(layers)})


@st.composite
def traces(draw: st.DrawFn) -> AccessTrace:
    sizes = {f"b{k}": draw(st.integers(1, 50)) for k in range(draw(st.integers(1, 8)))}
    blocks = st.lists(st.sampled_from(sorted(sizes)), max_size=3, unique=True).map(tuple)
    operations = draw(st.lists(st.builds(TracedOperation, st.just("op"), blocks, blocks), min_size=1, max_size=12))
    return AccessTrace(tuple(operations), sizes)


@given(trace=traces(), more=st.integers(0, 200))
def test_a_plan_never_has_more_than_its_budget_and_always_what_an_operation_needs(trace: AccessTrace, more: int) -> None:
    least = max(map(trace.nbytes, trace.footprints))
    made = plan_memory(trace, least + more)
    held = [trace.nbytes(made.pinned | set(made.windows[k])) for k in range(len(trace.operations))]
    assert max(held) == made.peak <= least + more
    for k, footprint in enumerate(trace.footprints):
        assert footprint <= made.pinned | set(made.windows[k])


@given(trace=traces(), more=st.integers(0, 200))
def test_time_is_at_least_that_of_computing_and_of_unlimited_memory_with_enough(trace: AccessTrace, more: int) -> None:
    budget, seconds = max(map(trace.nbytes, trace.footprints)) + more, [1.0] * len(trace.operations)
    assert planned_seconds(plan_memory(trace, budget), seconds, COPIES) >= unlimited_seconds(seconds) - 1e-9
    assert demand_seconds(trace, budget, seconds, COPIES) >= unlimited_seconds(seconds) - 1e-9
    assert planned_seconds(plan_memory(trace, trace.working_set), seconds, COPIES) == pytest.approx(unlimited_seconds(seconds))


def test_with_all_in_memory_all_is_pinned_and_below_one_operation_a_budget_is_refused() -> None:
    trace = sweeps(4, 2)
    assert plan_memory(trace, 400).pinned == {"w0", "w1", "w2", "w3"}
    assert plan_memory(trace, 100).peak == 100
    with pytest.raises(CompositionError, match="needs 100: give at least that"):
        plan_memory(trace, 99)


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_copies_that_take_less_time_than_computing_are_hidden_where_demand_paging_stalls(share: float) -> None:
    trace, seconds = sweeps(16, 4), [1.25] * 64  # a copy takes a second
    budget = int(share * trace.working_set)
    assert planned_seconds(plan_memory(trace, budget), seconds, COPIES) <= 1.01 * unlimited_seconds(seconds)
    assert demand_seconds(trace, budget, seconds, COPIES) == pytest.approx(unlimited_seconds(seconds) + 64)


def test_what_is_changed_is_copied_out_before_its_room_is_used() -> None:
    operations = tuple(
        TracedOperation(f"{kind}{k}", *(((), (f"a{k}",)) if kind == "f" else ((f"a{k}",), ()))) for kind in "fb" for k in range(4)
    )
    trace = AccessTrace(operations, {f"a{k}": 100 for k in range(4)})
    fast, slow = ([seconds] * 8 for seconds in (0.1, 10.0))
    made = plan_memory(trace, 200)
    assert planned_seconds(made, slow, COPIES) == pytest.approx(80, rel=0.05)
    assert planned_seconds(made, fast, COPIES) > 2.0
