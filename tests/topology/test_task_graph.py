"""A task graph under bounded delay: sequential, eventual, and what lies between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyrhythm.consistency import BoundedDelay
from polyrhythm.errors import CompositionError
from polyrhythm.topology.server_ring.task_graph import TaskGraph

TASKS = 12


@settings(max_examples=60, deadline=None)
@given(
    delay=st.one_of(st.none(), st.integers(0, 5)),
    after=st.lists(st.sets(st.integers(1, TASKS), max_size=3), min_size=TASKS, max_size=TASKS),
    draw=st.randoms(use_true_random=False),
)
def test_a_task_starts_when_what_it_depends_on_has_finished_and_all_finish(delay, after, draw) -> None:  # type: ignore[no-untyped-def]
    graph = TaskGraph(BoundedDelay(delay))
    needed = {task: {other for other in after[task - 1] if other < task} for task in range(1, TASKS + 1)}
    for task, others in needed.items():
        graph.add(task, others)
    running, done = set[int](), set[int]()
    while len(done) < TASKS:
        for task in set(needed) - running - done:
            bounded = delay is None or set(range(1, task - delay)) <= done
            assert graph.may_start(task) == (bounded and needed[task] <= done)
            if graph.may_start(task):
                running.add(task)
        if delay == 0:
            assert running == {len(done) + 1}, "sequential"
        task = draw.choice(sorted(running))
        running.remove(task)
        done.add(task)
        graph.finish(task)
        assert graph.unfinished == sorted(set(needed) - done)
    assert graph.finished == TASKS


def test_tasks_that_could_never_start_are_refused() -> None:
    graph = TaskGraph(BoundedDelay(0))
    graph.add(2, after=[1])
    graph.finish_through(3)
    for task, after in ((4, [4]), (4, [5]), (3, [])):
        with pytest.raises(CompositionError, match="could never start"):
            graph.add(task, after)
