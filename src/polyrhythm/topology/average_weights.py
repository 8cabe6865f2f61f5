"""All workers average their weights, or the part of them that the codec sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from polyrhythm.pieces.merge import Contribution
from polyrhythm.pieces.responses import AdoptWeights, ReplaceSent, Response
from polyrhythm.pieces.result import AllWorkers
from polyrhythm.pieces.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.pieces.traits import Pattern, Payload, TopologyTraits
from polyrhythm.topology.algorithms.algorithm import Algorithm
from polyrhythm.topology.algorithms.native_first import NativeFirst
from polyrhythm.topology.algorithms.ring import Ring
from polyrhythm.topology.algorithms.tree import Tree
from polyrhythm.topology.vector_channel import VectorChannel


@dataclass(frozen=True, slots=True)
class AverageWeights:
    """Each worker steps by itself, and the mean of what all send of their weights takes the place of what it has sent (Beton et al., 2025).

    What the codec leaves out stays as it is at each worker, so that replicas differ, by what their own steps have done since an element was
    last averaged. The run ends with the mean of all replicas, over a tree. With Identity() all weights are averaged, as LocalSteps over
    AllReduce() does; AllReduce() itself would drop at home what it does not send.
    """

    traits: ClassVar = TopologyTraits(frozenset({Payload.WEIGHTS}), Pattern.COLLECTIVE)
    service: ClassVar[None] = None
    result: ClassVar = AllWorkers()

    algorithm: Algorithm = field(default_factory=Ring)

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return _Averaging(agreement, endpoint, NativeFirst(self.algorithm))


class _Averaging(VectorChannel):
    """What is exchanged are weights; in the end all take over the mean of what they have."""

    initial: InitialState

    async def establish(self, initial: InitialState) -> Response:
        self.initial = initial
        return await super().establish(initial)

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        aggregated = await self.client.aggregate(value.clone(), clock)  # `value` are the weights, which will be written to
        return ReplaceSent(aggregated.sent, Contribution(aggregated.total, self.group.size, rates=rates))

    async def finish(self) -> Response:
        total = await Tree().reduce(self.port, self.group, self.initial.weights(), "mean")
        return AdoptWeights(total / self.group.size)
