"""Gossip with a mixing matrix: the mean over a worker and its neighbours, each with a weight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.offers import NOTHING
from polyrhythm.core.protocols.responses import AdoptWeights, Response
from polyrhythm.core.protocols.result_source import AllWorkers
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.families import NEIGHBOURS
from polyrhythm.topology.gossip.neighbourhood import Neighbourhood
from polyrhythm.topology.graphs.graph import Graph, RingGraph
from polyrhythm.topology.graphs.mixing_weights import MetropolisHastings, MixingWeights, degrees, least_eigenvalue


@dataclass(frozen=True, slots=True)
@checked
class WeightedGossip:
    """At every exchange x_i ← Σ_j w_ij x_j over a worker and its neighbours, w being symmetric and doubly stochastic (Lian et al., 2017).

    So the mean of all replicas stays, whatever the degrees are; a lossy codec does not change it either. The graph must be undirected and
    the same in every exchange. The run ends with the mean of all replicas, over a tree.
    """

    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    graph: Graph = field(default_factory=RingGraph)
    weights: MixingWeights = field(default_factory=MetropolisHastings)

    @property
    def traits(self) -> TopologyTraits:
        """Exchanges return mean weights."""
        return TopologyTraits(
            frozenset({Payload.WEIGHTS}),
            "with neighbours",
            NEIGHBOURS | {Capability.SYMMETRIC},
            frozenset({Capability.MIXING}),
            least_eigenvalue=self.least_eigenvalue,
        )

    def least_eigenvalue(self, workers: int) -> float:
        """The least eigenvalue of the mixing matrix of so many workers."""
        return least_eigenvalue(self.graph, self.weights, workers)

    def workers(self, available: int) -> int:
        """All, if the graph has room for them. Raises CompositionError for a graph that is directed or changes between exchanges."""
        self.graph.check(available)
        degrees(self.graph, available)
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Weighted(Neighbourhood(self.graph, self.weights, agreement, endpoint))


class _Weighted:
    """One worker, which mixes."""

    offers = NOTHING

    def __init__(self, near: Neighbourhood) -> None:
        self.near = near

    async def establish(self, initial: InitialState) -> Response:
        return AdoptWeights(await self.near.establish(initial))

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        near = self.near
        sent, received = await near.swap(value.clone(), clock)
        mixed = value.clone()
        for share, other in zip(near.shares, received, strict=True):
            mixed -= share * (sent - other)  # what is equal stays as it is, and no gradient, -0, remains none
        return AdoptWeights(mixed)

    async def finish(self) -> Response:
        return await self.near.finish()

    async def drain(self, step: int) -> str:
        return ""  # every exchange has brought what was sent for it

    def export(self) -> StateTree:
        return self.near.export()

    def restore(self, state: StateTree) -> None:
        self.near.restore(state)

    def take_over(self, state: StateTree, own: bool) -> None:
        self.near.take_over(state, own)

    def inherit(self, residual: Tensor) -> None:
        self.near.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.near.states()
