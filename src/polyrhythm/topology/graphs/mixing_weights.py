"""Weights of a worker's mean over itself and its neighbours, on an undirected graph that does not change.

Graphs are given one as a setting; gossip topologies ask them for the weights of each exchange.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.topology.graphs.graph import Graph

_PROBED_RANKS, _PROBED_EXCHANGES = 8, 4
_DECOMPOSED = 512
"""Up to so many workers eigenvalues are computed; beyond, Gershgorin's discs bound the least."""


class MixingWeights(Protocol):
    """Weights that make a symmetric and doubly stochastic mixing matrix: what they leave of 1 is a worker's own."""

    def __hash__(self) -> int:
        """Settings are values: results that are computed of them are cached."""

    def share(self, mine: int, theirs: int, most: int) -> float:
        """The weight of one neighbour, who has `theirs` neighbours where I have `mine` and nobody has more than `most`."""


@dataclass(frozen=True, slots=True)
class MetropolisHastings:
    """1 / (1 + max(d_i, d_j)), from the degrees of two neighbours alone (Xiao, Boyd, Lall, 2005)."""

    def share(self, mine: int, theirs: int, most: int) -> float:
        """By the larger degree."""
        return 1 / (1 + max(mine, theirs))


@dataclass(frozen=True, slots=True)
class UniformWeights:
    """1 / (1 + d), d being the largest degree: equal for all neighbours (D-PSGD on a ring takes 1/3; Lian et al., 2017)."""

    def share(self, mine: int, theirs: int, most: int) -> float:
        """By the largest degree of all."""
        return 1 / (1 + most)


@dataclass(frozen=True, slots=True)
@checked
class Lazy:
    """A part `stay` of a worker's own weights, and the rest as `inner` has it: the eigenvalues become stay + (1 - stay) λ.

    With 1/2 none is negative: (I + W) / 2, as exact diffusion has it (Yuan et al., 2019).
    """

    inner: MixingWeights
    stay: float = 0.5

    def __post_init__(self) -> None:
        if isinstance(self.stay, bool) or not 0 <= self.stay < 1:
            raise CompositionError(f"Lazy(stay={self.stay}) does not mix: give the part that stays, at least 0 and below 1, such as 0.5.")

    def share(self, mine: int, theirs: int, most: int) -> float:
        """The rest of the inner one."""
        return (1 - self.stay) * self.inner.share(mine, theirs, most)


@functools.lru_cache(maxsize=16)
def degrees(graph: Graph, workers: int) -> tuple[int, ...]:
    """The number of neighbours of each worker. Raises CompositionError for a graph that is directed or changes between exchanges."""
    for rank in range(min(workers, _PROBED_RANKS)):
        group = Group.of_workers(workers, rank)
        found = {side for step in range(_PROBED_EXCHANGES) for side in graph.neighbours(step, group)}
        if len(found) > 1:
            raise CompositionError(
                f"{graph!r} names other neighbours from one exchange to the next, or one way only, and a mixing matrix needs the same "
                "ones, both ways: give RingGraph() or FixedGraph.of(a networkx graph), or mix over Gossip(graph) with Mean()."
            )
    return tuple(len(graph.neighbours(0, Group.of_workers(workers, rank))[0]) for rank in range(workers))


def row(graph: Graph, weights: MixingWeights, group: Group) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The neighbours of this member of `group`, and the weight of each."""
    counts = degrees(graph, group.size)
    neighbours, _ = graph.neighbours(0, group)
    most = max(counts)
    return neighbours, tuple(weights.share(counts[group.rank], counts[other], most) for other in neighbours)


def matrix(graph: Graph, weights: MixingWeights, workers: int) -> npt.NDArray[np.float64]:
    """The mixing matrix (P, P): symmetric, rows and columns add up to 1."""
    mixing = np.zeros((workers, workers))
    for rank in range(workers):
        neighbours, shares = row(graph, weights, Group.of_workers(workers, rank))
        mixing[rank, list(neighbours)] = shares
        mixing[rank, rank] = 1 - sum(shares)
    return mixing


@functools.lru_cache(maxsize=16)
def least_eigenvalue(graph: Graph, weights: MixingWeights, workers: int) -> float:
    """The least eigenvalue of the mixing matrix; for many workers a lower bound, twice the least own weight less 1."""
    if workers <= _DECOMPOSED:
        return float(np.linalg.eigvalsh(matrix(graph, weights, workers))[0])
    return min(1 - 2 * sum(row(graph, weights, Group.of_workers(workers, rank))[1]) for rank in range(workers))
