"""Functions that become graphs of tasks compute what they did, wait for nothing else, and refuse what becomes no task."""

from __future__ import annotations

from typing import Any

import pytest

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.phylanx import futurise, futurised_seconds, in_levels_seconds, run_on_threads


def plus(a: int, b: int) -> int:
    return a + b


def chains(values: Any, count: int) -> Any:
    for k in range(count):
        one, other = plus(values[k], 1), plus(values[k], 2)
        values[k] = plus(one, other)
    return plus(values[0], values[count - 1])


def odd(values: Any) -> Any:
    while values:
        values = plus(values, 1)
    return values


def test_a_graph_has_the_result_of_its_function_and_the_time_of_its_longest_way() -> None:
    graph = futurise(chains, {"plus": plus}, [1, 2, 3], 3)
    assert len(graph.tasks) == 10
    assert [len(level) for level in graph.levels()] == [6, 3, 1]
    seconds = [1.0] * 9 + [5.0]
    for workers, free, waiting in ((1, 14.0, 14.0), (3, 9.0, 8.0), (100, 7.0, 7.0)):  # taking the first is not always best
        assert futurised_seconds(graph, workers, seconds) == (chains([1, 2, 3], 3), free)
        assert in_levels_seconds(graph, workers, seconds) == (chains([1, 2, 3], 3), waiting)
    assert graph.longest(seconds) == 7.0
    assert run_on_threads(graph, 3) == chains([1, 2, 3], 3)


def test_a_task_does_not_wait_for_those_that_it_does_not_need() -> None:
    graph = futurise(chains, {"plus": plus}, [1, 2], 2)
    seconds = [4.0, 1.0, 1.0, 1.0, 1.0, 4.0, 1.0]
    assert futurised_seconds(graph, 4, seconds)[1] < in_levels_seconds(graph, 4, seconds)[1]


def test_what_becomes_no_task_is_refused_with_its_line() -> None:
    with pytest.raises(CompositionError, match="Line 2, 'while values"):
        futurise(odd, {"plus": plus}, 1)
