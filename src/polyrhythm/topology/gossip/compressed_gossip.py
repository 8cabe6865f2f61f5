"""Gossip of compressed differences to copies that neighbours remember."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
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
from polyrhythm.errors import CompositionError
from polyrhythm.topology.families import NEIGHBOURS
from polyrhythm.topology.gossip.neighbourhood import Neighbourhood
from polyrhythm.topology.graphs.graph import Graph, RingGraph
from polyrhythm.topology.graphs.mixing_weights import MetropolisHastings, MixingWeights, degrees


@dataclass(frozen=True, slots=True)
@checked
class CompressedGossip:
    """x̂_i ← x̂_i + Q(x_i - x̂_i), sent as Q(…); x_i ← x_i + γ Σ_j w_ij (x̂_j - x̂_i) (CHOCO-SGD; Koloskova, Stich, Jaggi, 2019, algorithm 2).

    x̂_i is what all neighbours of worker i remember of it, and begins with the weights that all begin with (the paper begins with zeros).
    Q is any codec that keeps nothing back: what it leaves out is in the next difference. Of the neighbours' copies a worker keeps only
    Σ_j w_ij (x̂_j - x̂_i), as in the paper's algorithm 6. Without compression and with `gamma` 1 it is `WeightedGossip`; the more a codec
    loses, the smaller `gamma` must be. The mean of all replicas stays whatever is lost.
    """

    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    graph: Graph = field(default_factory=RingGraph)
    weights: MixingWeights = field(default_factory=MetropolisHastings)
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.gamma, bool) or not 0 < self.gamma <= 1:
            raise CompositionError(f"CompressedGossip(gamma={self.gamma}) does not mix: give a step above 0, of at most 1, such as 0.3.")

    @property
    def traits(self) -> TopologyTraits:
        """Exchanges return mean weights, and codecs encode differences."""
        return TopologyTraits(
            frozenset({Payload.WEIGHTS}),
            "with neighbours",
            NEIGHBOURS | {Capability.DIFFERENCES},
            frozenset({Capability.MIXING, Capability.DIFFERENCES}),
        )

    def workers(self, available: int) -> int:
        """All, if the graph has room for them. Raises CompositionError for a graph that is directed or changes between exchanges."""
        self.graph.check(available)
        degrees(self.graph, available)
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Compressed(Neighbourhood(self.graph, self.weights, agreement, endpoint), self.gamma)


class _Compressed:
    """`copy` is x̂ of this worker, and `taken` Σ_j w_ij (x̂_i - x̂_j)."""

    offers = NOTHING

    def __init__(self, near: Neighbourhood, gamma: float) -> None:
        self.near = near
        self.gamma = gamma
        self.copy: Tensor
        self.taken: Tensor

    async def establish(self, initial: InitialState) -> Response:
        weights = await self.near.establish(initial)
        self.copy, self.taken = weights, torch.zeros_like(weights)
        return AdoptWeights(weights)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        sent, received = await self.near.swap(value - self.copy, clock)
        self.copy = self.copy + sent
        for share, other in zip(self.near.shares, received, strict=True):
            self.taken = self.taken + share * (sent - other)
        return AdoptWeights(value - self.gamma * self.taken)

    async def finish(self) -> Response:
        return await self.near.finish()

    async def drain(self, step: int) -> str:
        return ""  # every exchange has brought what was sent for it

    def export(self) -> StateTree:
        return {"near": self.near.export(), "copy": self.copy, "taken": self.taken}

    def restore(self, state: StateTree) -> None:
        self.near.restore(state["near"])
        self.copy, self.taken = state["copy"], state["taken"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """The copies begin again with weights that are equal at all: the neighbours of now may know no others."""
        self.near.take_over(state["near"], own)

    def inherit(self, residual: Tensor) -> None:
        self.near.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.near.states()
