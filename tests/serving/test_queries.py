"""The division of a query's time: as brute force finds it, along every path within the objective, or refused."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import EXACT, machines, straight

from polyrhythm.errors import CompositionError
from polyrhythm.serving import EvenSplit, LatencyProfile, LatencySplit, OptimalSplit, Query, QueryNode, plan
from polyrhythm.serving.latency_split import machines_needed

MEMBERS: tuple[LatencySplit, ...] = (OptimalSplit(), EvenSplit())
SHAPES: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = (
    (("a", ()),),
    (("a", ()), ("b", ("a",))),
    (("a", ()), ("b", ("a",)), ("c", ("b",))),
    (("a", ()), ("b", ("a",)), ("c", ("a",)), ("d", ("b",))),
    (("a", ()), ("b", ("a",)), ("c", ("a",)), ("d", ("b", "c"))),
)


def query_of(shape: int, seed: int, slo: float = 0.2) -> tuple[Query, list[LatencyProfile]]:
    draw = random.Random(seed)
    nodes = tuple(QueryNode(name, name, after, draw.choice((0.5, 1.0, 5.0)) if after else 1.0) for name, after in SHAPES[shape])
    profiles = [straight(name, draw.uniform(0.0002, 0.002), draw.uniform(0.0005, 0.008)) for name, _ in SHAPES[shape]]
    return Query("q", nodes, slo, 100.0), profiles


def paths(query: Query) -> list[list[str]]:
    """All ways from a node without predecessors to one without followers."""
    followers = {node.name: [each.name for each in query.nodes if node.name in each.after] for node in query.nodes}

    def onward(name: str) -> list[list[str]]:
        return [[name, *rest] for each in followers[name] for rest in onward(each)] or [[name]]

    return [path for node in query.nodes if not node.after for path in onward(node.name)]


@settings(max_examples=12, deadline=None)
@given(st.integers(0, len(SHAPES) - 1), st.integers(0, 10**6), st.integers(4, 20))
def test_the_split_needs_as_few_machines_as_brute_force_finds(shape: int, seed: int, segments: int) -> None:
    query, profiles = query_of(shape, seed)
    names = [node.name for node in query.nodes]
    cost = [
        [machines_needed(query.rates[name], [profile], query.slo * k / segments, EXACT) for k in range(segments + 1)]
        for name, profile in zip(names, profiles, strict=True)
    ]
    ways = [[names.index(name) for name in path] for path in paths(query)]
    least = min(
        sum(cost[index][k] for index, k in enumerate(parts))
        for parts in itertools.product(range(segments + 1), repeat=len(names))
        if all(sum(parts[index] for index in way) <= segments for way in ways)
    )
    if math.isinf(least):
        with pytest.raises(CompositionError, match="raise the objective"):
            OptimalSplit(segments).sessions(query, profiles, EXACT)
        return
    made = OptimalSplit(segments).sessions(query, profiles, EXACT)
    found = sum(machines_needed(one.rate, [profile], one.slo, EXACT) for one, profile in zip(made, profiles, strict=True))
    assert found == pytest.approx(least)


@pytest.mark.parametrize("split", MEMBERS)
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_along_every_path_the_parts_are_within_the_objective(split: LatencySplit, shape: int) -> None:
    query, profiles = query_of(shape, 3, 0.3)
    slo = {one.name.partition("/")[2]: one.slo for one in split.sessions(query, profiles, EXACT)}
    assert all(sum(slo[name] for name in path) <= query.slo + 1e-9 for path in paths(query))


def test_a_leaf_may_use_all_of_its_time() -> None:
    """In the published code of Nexus the loop ends before the whole budget, so a single model plans with less than it has."""
    query = Query("q", (QueryNode("a", "a"),), 0.1, 10.0)
    [only] = OptimalSplit(10).sessions(query, [straight("a", 0.001, 0.001)], EXACT)
    assert only.slo == pytest.approx(0.1)


def test_a_query_of_three_stages_needs_fewer_machines_than_with_even_parts() -> None:
    nodes = (QueryNode("detect", "a"), QueryNode("crop", "b", ("detect",)), QueryNode("recognize", "c", ("crop",), 5.0))
    profiles = [straight("a", 0.001, 0.004), straight("b", 0.0002, 0.001), straight("c", 0.001, 0.025)]
    query = Query("q", nodes, 0.21, 300.0)
    counts = [len(plan(split.sessions(query, profiles, EXACT), machines(60), profiles, None, EXACT)[0].machines) for split in MEMBERS]
    assert counts[0] <= 0.85 * counts[1]


def test_graphs_that_are_not_series_parallel_and_orders_that_cannot_be_are_refused() -> None:
    crossed = (QueryNode("a", "a"), QueryNode("b", "b"), QueryNode("c", "c", ("a",)), QueryNode("d", "d", ("a", "b")))
    profiles = [straight(name, 0.001, 0.001) for name in "abcd"]
    with pytest.raises(CompositionError, match="no series-parallel graph"):
        OptimalSplit().sessions(Query("q", crossed, 0.2, 1.0), profiles, EXACT)
    with pytest.raises(CompositionError, match="list nodes in order"):
        Query("q", (QueryNode("a", "a", ("b",)), QueryNode("b", "b")), 0.1, 1.0)
    with pytest.raises(CompositionError, match="a name of its own"):
        Query("q", (QueryNode("a", "a"), QueryNode("a", "b")), 0.1, 1.0)
