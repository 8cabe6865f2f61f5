"""Exchanges that are waited for tensor by tensor, when the next forward pass needs them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.result_source import ResultSource
from polyrhythm.core.protocols.topology import Agreement, Channel, ServerSide, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.topology.summation.summation import Summation


class Deferrable(Protocol):
    """A topology that exchanges single tensors, in any order."""

    @property
    def traits(self) -> TopologyTraits: ...

    @property
    def result(self) -> ResultSource: ...

    @property
    def service(self) -> ServerSide | None: ...

    def workers(self, available: int) -> int: ...

    def deferred(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        """A worker's side, where the next forward pass may wait for single tensors."""


@dataclass(frozen=True, slots=True)
@checked
class Deferred:
    """Send each tensor as soon as backward() has computed it, and wait for the result only before the forward pass that needs it.

    Over a summation service it is gradients that leave: the parameters of the first layers, which the next forward pass needs first,
    overtake those of the last (ByteScheduler, Peng et al., 2019; BytePS, Jiang et al., 2020, section 5). Over Gossip the worker takes its
    own step on a tensor when that has its gradient, and the tensor's new weights leave (GossipGraD; Daily et al., 2018, layer by layer).
    There is one backward() to each optimizer.step(), and nobody changes gradients between the two, nor, over Gossip, options of the
    optimizer; weights are read inside the forward pass of a module, in `state_dict()`, or after the run. Raises CompositionError where
    something else is wrapped.
    """

    topology: Deferrable = field(default_factory=Summation)

    def __post_init__(self) -> None:
        if getattr(type(self.topology), "deferred", None) is None:
            raise CompositionError(
                f"Deferred({self.topology!r}) cannot be: workers are at different tensors at a time, and it needs an exchange of single "
                "tensors in any order. Give it Summation(...), ServedSums(...) or Gossip(...), or take Bucketed for an all-reduce during "
                "backward()."
            )

    @property
    def traits(self) -> TopologyTraits:
        """The topology's traits, for gradients, or for weights that arrive mixed already."""
        traits = self.topology.traits
        payloads = traits.payloads & {Payload.GRADIENT, Payload.WEIGHTS}
        return replace(
            traits, payloads=payloads, requires=frozenset({Capability.MIXING}) if Payload.WEIGHTS in payloads else traits.requires
        )

    @property
    def result(self) -> ResultSource:
        return self.topology.result

    @property
    def service(self) -> ServerSide | None:
        return self.topology.service

    def workers(self, available: int) -> int:
        return self.topology.workers(available)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return self.topology.deferred(agreement, endpoint)


EXAMPLES = (Deferred(Summation(0)), Deferred(Summation(1, nbytes=16)))
