"""Sums of single tensors by a summation service."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.topology import Agreement, WorkerEndpoint
from polyrhythm.core.tensors import Layout
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.summation.shares import Stretch
from polyrhythm.topology.summation.sum_source import SingleTensor
from polyrhythm.topology.summation.summation_client import SummationClient


class SummationSource:
    """A client for each tensor, all of which share the lines of `sums`."""

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, sums: SummationClient) -> None:
        self.codec = agreement.codec
        self.endpoint = endpoint
        self.sums = sums
        self.finish = sums.finish
        self.drain = sums.drain

    async def begin(self, layout: Layout) -> None:
        """Nothing to set: requests describe themselves."""

    def tensor(self, single: SingleTensor) -> CollectiveClient:
        stretch = Stretch(single.start, single.held.layout.numel) if self.codec.traits.verbatim else None
        order = _Ordered(self.sums, single.number, stretch)
        client = CollectiveClient(order, self.codec, self.endpoint, f"{single.number}/" if single.number else "")
        client.open(single.layout, single.weights, single.held)
        return client


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Sums of one tensor, which go by its number; `stretch` is where it lies, if what is summed is the tensor itself."""

    sums: SummationClient
    number: int
    stretch: Stretch | None

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        return await self.sums.sum(value, topic, self.stretch or Stretch(0, value.numel()), self.number)
