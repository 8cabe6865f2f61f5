"""An all-reduce that begins during the backward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.collectives.broadcast import broadcast
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.offers import Offers
from polyrhythm.core.protocols.responses import AdoptWeights, ApplyContributions, Response
from polyrhythm.core.protocols.result_source import FirstWorker
from polyrhythm.core.protocols.topology import Agreement, Channel, InitialState, WorkerEndpoint
from polyrhythm.core.protocols.traits import Payload, TopologyTraits
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import CompositionError
from polyrhythm.topology.collective.algorithms.native_first import NativeFirst
from polyrhythm.topology.collective.all_reduce import AllReduce
from polyrhythm.topology.collective.clients import Clients
from polyrhythm.topology.collective.collective_client import CollectiveClient
from polyrhythm.topology.families import COLLECTIVE


@dataclass(frozen=True, slots=True)
@checked
class Bucketed:
    """Exchange gradients in buckets of about `nbytes`, each as soon as backward() has computed it (Li et al., 2020, section 3.2).

    The last parameters come first. A bucket is full when it has reached `nbytes`; no parameter is cut. Buckets are exchanged one after the
    other, each encoded with its own state: several small ones cost more latency, one large one overlaps little.
    There is one backward() to each optimizer.step(), and nobody changes gradients between the two. Raises CompositionError where
    something else than an all-reduce is wrapped.
    """

    service: ClassVar[None] = None
    result: ClassVar = FirstWorker()

    topology: AllReduce = field(default_factory=AllReduce)
    nbytes: int = 4 * 2**20

    def __post_init__(self) -> None:
        if not isinstance(self.topology, AllReduce):  # not a choice between pieces: what is annotated, for those who do not check types
            raise CompositionError(
                f"Bucketed({self.topology!r}) has nothing that could be exchanged bucket by bucket: only an all-reduce makes requests "
                "for a sum of gradients. Give it AllReduce(...), or use the other topology bare."
            )
        if not self.nbytes >= 1:
            raise CompositionError(f"Bucketed(nbytes={self.nbytes}) is no size: give 1 byte or more, for example 4 * 2**20.")

    @property
    def traits(self) -> TopologyTraits:
        """Sums of buckets."""
        return TopologyTraits(frozenset({Payload.GRADIENT}), "collectively", COLLECTIVE, rounds=self.topology.traits.rounds)

    def workers(self, available: int) -> int:
        return self.topology.workers(available)

    def channel(self, agreement: Agreement, endpoint: WorkerEndpoint) -> Channel:
        return _Parts(self, agreement, endpoint)


class _Parts:
    """A client for each bucket. The first has no name, so that one bucket sends what an all-reduce without buckets does.

    `clock` is the step whose buckets are exchanged: there is one `conclude` to each step. Buckets that `came` wait until it is their
    `turn`, which is the same at all workers.
    """

    def __init__(self, settings: Bucketed, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.settings = settings
        self.agreement = agreement
        self.endpoint = endpoint
        self.group = endpoint.group
        self.port = endpoint.port
        self.clients = Clients()
        self.offers = Offers(buckets=self)
        self.numel = 0
        self.clock = 1
        self.came: dict[int, tuple[Tensor, float]] = {}
        self.turn = 0
        self.total: Tensor | None = None

    @property
    def layouts(self) -> list[Layout]:
        return self.clients.layouts

    async def establish(self, initial: InitialState) -> Response:
        weights = initial.agreed()
        self.numel = weights.numel()
        for k, layout in enumerate(cut(initial.model_state.layout, self.settings.nbytes, weights.element_size())):
            name = f"{k}/" if k else ""
            self.clients.append(CollectiveClient(NativeFirst(self.settings.topology.algorithm), self.agreement.codec, self.endpoint, name))
            self.clients[k].open(layout, partial(self._weights, initial.model_state, k), initial.model_state)
        self.clients.conclude()
        return AdoptWeights(await broadcast(self.port, self.group, weights, "init"))

    async def exchange_bucket(self, bucket: int, value: Tensor) -> None:
        self.came[bucket] = value, self.port.now()
        while self.turn in self.came:
            value, since = self.came.pop(self.turn)
            client = self.clients[self.turn]
            self.port.progressed(client.subject, "queue", since)
            total = (await client.aggregate(value, self.clock)).total
            if self.total is None:
                self.total = torch.empty(self.numel, dtype=total.dtype)
            self._of(self.total, self.turn).copy_(total)
            self.turn += 1

    async def conclude(self, rates: tuple[float, ...]) -> Response:
        total, self.total = self.total, None
        self.turn = 0
        self.clock += 1
        self.clients.conclude()
        assert total is not None, "every bucket was sent before"
        return ApplyContributions([Contribution(total, self.group.size, rates=rates)])

    async def exchange(self, value: Tensor, clock: int, rates: tuple[float, ...]) -> Response:
        self.clock = clock
        for bucket in range(len(self.clients)):
            await self.exchange_bucket(bucket, self._of(value, bucket))
        return await self.conclude(rates)

    async def finish(self) -> Response:
        return ApplyContributions([])

    async def drain(self, step: int) -> str:
        return ""  # every exchange has brought what was sent for it

    def export(self) -> StateTree:
        return {"clock": self.clock, "clients": self.clients.export()}

    def restore(self, state: StateTree) -> None:
        self.clock = state["clock"]
        self.clients.restore(state["clients"])

    def take_over(self, state: StateTree, own: bool) -> None:
        self.clock = state["clock"]
        self.clients.take_over(state["clients"], own)

    def inherit(self, residual: Tensor) -> None:
        self.clients.inherit(residual)

    def states(self) -> list[tuple[State, Tensor]]:
        return self.clients.states()

    def _weights(self, model_state: WeightsView, bucket: int) -> Tensor:
        return self._of(model_state.weights, bucket)

    def _of(self, flat: Tensor, bucket: int) -> Tensor:
        """The range of `flat` (numel,) that belongs to a bucket; the first bucket lies at the end."""
        after = sum(layout.numel for layout in self.layouts[:bucket])
        return flat.narrow(0, self.numel - after - self.layouts[bucket].numel, self.layouts[bucket].numel)


def cut(layout: Layout, nbytes: int, itemsize: int) -> list[Layout]:
    """The buckets of `layout`, the last parameters first; within a bucket they keep their order."""
    parts, end, size = [], len(layout.names), 0
    for start in reversed(range(end)):
        size += prod(layout.shapes[start]) * itemsize
        if size >= nbytes or start == 0:
            parts.append(Layout(layout.names[start:end], layout.shapes[start:end]))
            end, size = start, 0
    return parts


EXAMPLES = (Bucketed(AllReduce(), nbytes=32),)
