"""Sums that are waited for tensor by tensor, when the next forward pass needs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from polyrhythm.errors import CompositionError
from polyrhythm.pieces.result_source import FirstWorker
from polyrhythm.pieces.topology import Agreement, Channel, ServerSide, WorkerEndpoint
from polyrhythm.pieces.traits import Payload, TopologyTraits
from polyrhythm.topology.each_tensor import EachTensor
from polyrhythm.topology.served_sums import ServedSums
from polyrhythm.topology.summation import Summation


@dataclass(frozen=True, slots=True)
class Deferred:
    """Send each gradient as soon as backward() has computed it, and wait for its sum only before the forward pass that needs it.

    The parameters of the first layers, which the next forward pass needs first, overtake those of the last (ByteScheduler, Peng et al.,
    2019; BytePS, Jiang et al., 2020, section 5). There is one backward() to each optimizer.step(), and nobody changes gradients between the
    two; weights are read inside the forward pass of a module, in `state_dict()`, or after the run. Raises CompositionError where something
    else than a summation service is wrapped.
    """

    result: ClassVar = FirstWorker()

    topology: Summation | ServedSums = field(default_factory=Summation)

    def __post_init__(self) -> None:
        if not isinstance(
            self.topology, Summation | ServedSums
        ):  # not a choice between pieces: what is annotated, for those who do not check types
            raise CompositionError(
                f"Deferred({self.topology!r}) cannot be: workers are at different tensors at a time, and only a summation service sums "
                "in any order. Give it Summation(...) or ServedSums(...), or take Bucketed for an all-reduce during backward()."
            )

    @property
    def traits(self) -> TopologyTraits:
        """Gradients, in the pattern of the service."""
        return TopologyTraits(frozenset({Payload.GRADIENT}), self.topology.traits.pattern)

    @property
    def service(self) -> ServerSide | None:
        """As the summation service's."""
        return self.topology.service

    def workers(self, available: int) -> int:
        """All."""
        return available

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side."""
        return EachTensor(agreement, endpoint, self.topology.source(agreement, endpoint), defers=True)
