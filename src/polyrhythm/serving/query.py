"""A pipeline of models with one latency objective for the whole, as a graph in which some models run after others."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class QueryNode:
    """A model of a query, which runs after all of `after`, `fan_out` times for each request of the first of these.

    A detector that finds five faces calls the model that recognizes them with a fan-out of 5.
    """

    name: str
    model: str
    after: tuple[str, ...] = ()
    fan_out: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.fan_out < math.inf:
            raise CompositionError(f"The node {self.name!r} has a fan-out of {self.fan_out}: give a number above zero.")


@dataclass(frozen=True, slots=True)
@checked
class Query:
    """`rate` queries per second that must be answered within `slo` seconds; nodes are listed after those that they follow.

    Raises CompositionError for names that occur twice, and for a node that follows one that is not listed before it.
    """

    name: str
    nodes: tuple[QueryNode, ...]
    slo: float
    rate: float

    def __post_init__(self) -> None:
        if not self.nodes or not 0 < self.slo < math.inf or not 0 <= self.rate < math.inf:
            raise CompositionError(f"The query {self.name!r} needs nodes, an objective above zero, and a rate that is not below.")
        twice = [name for name, count in Counter(node.name for node in self.nodes).items() if count > 1]
        if twice:
            raise CompositionError(f"The query {self.name!r} has two nodes {twice[0]!r}: give each a name of its own.")
        known: set[str] = set()
        for node in self.nodes:
            if strange := [name for name in node.after if name not in known]:
                raise CompositionError(
                    f"The node {node.name!r} of {self.name!r} follows {strange[0]!r}, which is not listed before it: list nodes in order."
                )
            known.add(node.name)

    @property
    def rates(self) -> dict[str, float]:
        """The requests per second of each node."""
        rates: dict[str, float] = {}
        for node in self.nodes:
            rates[node.name] = node.fan_out * (rates[node.after[0]] if node.after else self.rate)
        return rates


@dataclass(frozen=True, slots=True)
class SeriesParallel:
    """A part of a query that takes one share of the time: a node, or two parts one after the other, or two side by side."""

    node: str = ""
    first: SeriesParallel | None = None
    second: SeriesParallel | None = None
    parallel: bool = False


@dataclass(slots=True)
class _Vertex:
    part: SeriesParallel
    before: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)


def reduced(query: Query) -> SeriesParallel:
    """The query as parts in series and in parallel (after Valdes, Tarjan and Lawler, 1982).

    Every tree is such a graph. Raises CompositionError for a graph that is none: there no division of the time is right for every path.
    """
    index = {node.name: number for number, node in enumerate(query.nodes)}
    graph = {number: _Vertex(SeriesParallel(node.name)) for number, node in enumerate(query.nodes)}
    for number, node in enumerate(query.nodes):
        for name in node.after:
            graph[number].before.add(index[name])
            graph[index[name]].after.add(number)
    while len(graph) > 1 and (_join_parallel(graph) or _join_series(graph)):
        pass
    if len(graph) > 1:
        raise CompositionError(
            f"The query {query.name!r} is no series-parallel graph: its time cannot be divided so that every path keeps the objective. "
            "Let each node follow one other, or join branches that begin together."
        )
    [whole] = graph.values()
    return whole.part


def _join_parallel(graph: dict[int, _Vertex]) -> bool:
    """Replace two vertices with the same neighbours by one."""
    seen: dict[tuple[frozenset[int], frozenset[int]], int] = {}
    for number, vertex in graph.items():
        key = (frozenset(vertex.before), frozenset(vertex.after))
        if key not in seen:
            seen[key] = number
            continue
        other = graph[seen[key]]
        other.part = SeriesParallel(first=other.part, second=vertex.part, parallel=True)
        for name in vertex.before:
            graph[name].after.discard(number)
        for name in vertex.after:
            graph[name].before.discard(number)
        del graph[number]
        return True
    return False


def _join_series(graph: dict[int, _Vertex]) -> bool:
    """Replace a vertex and its only follower, which follows no other, by one."""
    for number, vertex in graph.items():
        if len(vertex.after) != 1:
            continue
        [follower] = vertex.after
        if graph[follower].before != {number}:
            continue
        vertex.part = SeriesParallel(first=vertex.part, second=graph[follower].part)
        vertex.after = graph[follower].after
        for name in vertex.after:
            graph[name].before = (graph[name].before - {follower}) | {number}
        del graph[follower]
        return True
    return False
