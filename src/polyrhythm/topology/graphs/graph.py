"""Gossip graphs: the neighbours of a worker at each step. Most topologies of `topology.gossip` take one as `graph`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

from polyrhythm.core import rng
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


class Graph(Protocol):
    """For every step, the workers that one sends to and those that one receives from."""

    def __hash__(self) -> int:
        """Settings are values: results that are computed of them are cached."""

    def check(self, workers: int) -> None:
        """Refuse a number of workers that the graph cannot hold."""

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(to, from) for this member of `group` in its exchange number `step`, counted from 0; consistent over all workers."""


@functools.lru_cache(maxsize=64)
def _shuffled(seed: int, turn: int, workers: int) -> tuple[list[int], list[int]]:
    """The ranks in the order of `turn` (turn 0 is their own), and each rank's place in it; the same for all workers of a run."""
    order = list(range(workers)) if turn == 0 else rng.stream(seed, "order", turn).permutation(workers).tolist()
    places = [0] * workers
    for at, rank in enumerate(order):
        places[rank] = at
    return order, places


@dataclass(frozen=True, slots=True)
class RingGraph:
    """Both neighbours on a ring, at every step (D-PSGD; Lian et al., 2017)."""

    def check(self, workers: int) -> None:
        """Accept any number of workers."""

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The previous and the next in rank; one worker where they are the same, none when alone."""
        near = {(group.rank - 1) % group.size, (group.rank + 1) % group.size} - {group.rank}
        both = tuple(sorted(near))
        return both, both


@dataclass(frozen=True, slots=True)
@checked
class Dissemination:
    """Step t: send to i + 2^(t mod ⌈log2 P⌉), receive from i - 2^(t mod ⌈log2 P⌉) (GossipGraD; Daily et al., 2018, section 4).

    With `rotate`, after every ⌈log2 P⌉ steps the ranks are shuffled anew, so that over time every two exchange directly.
    """

    rotate: bool = True

    def check(self, workers: int) -> None:
        """Accept any number of workers."""

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """One receiver and one sender."""
        if group.size == 1:
            return (), ()
        rounds = (group.size - 1).bit_length()
        turn, reach = step // rounds, 1 << (step % rounds)
        order, places = _shuffled(group.seed, turn if self.rotate else 0, group.size)
        at = places[group.rank]
        return (order[(at + reach) % group.size],), (order[(at - reach) % group.size],)


@dataclass(frozen=True, slots=True)
class RandomPairs:
    """At every step the workers are paired at random; an odd one rests (randomized gossip; Boyd et al., 2006)."""

    def check(self, workers: int) -> None:
        """Accept any number of workers."""

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The partner, both ways."""
        order, places = _shuffled(group.seed, step + 1, group.size)
        mate = places[group.rank] ^ 1
        both = (order[mate],) if mate < group.size else ()
        return both, both


@dataclass(frozen=True, slots=True)
@checked
class FixedGraph:
    """The neighbours in any undirected networkx graph whose nodes are the ranks 0…P-1.

    Where degrees differ, averaging with all neighbours (Mean) gives those with many of them more weight in what all come to agree on;
    Elastic keeps the mean of all replicas on any graph.
    """

    edges: tuple[tuple[int, int], ...]
    nodes: int

    @staticmethod
    def of(graph: Any) -> FixedGraph:
        """From a networkx graph; it must be undirected, connected, and have the nodes 0…P-1."""
        import networkx  # it takes a quarter of a second, in every process

        if graph.is_directed() or sorted(graph.nodes) != list(range(len(graph))) or not networkx.is_connected(graph):
            raise CompositionError(
                "This graph cannot carry gossip: it must be undirected and connected, with the ranks 0 to P-1 as nodes "
                "(networkx.convert_node_labels_to_integers renames them)."
            )
        return FixedGraph(tuple(sorted((min(a, b), max(a, b)) for a, b in graph.edges if a != b)), len(graph))

    def check(self, workers: int) -> None:
        """As many as the graph has nodes."""
        if workers != self.nodes:
            raise CompositionError(f"The graph has {self.nodes} nodes and the run {workers} workers: they must be equally many.")

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All neighbours, both ways."""
        both = tuple(sorted({b if a == group.rank else a for a, b in self.edges if group.rank in (a, b)}))
        return both, both
