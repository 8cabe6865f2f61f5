"""One worker's client for collective requests, which all workers make in the same order.

Topologies of `topology.collective`, and `Summation`, make it; their channels sum values with it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from torch import Tensor

from polyrhythm.core.protocols.algorithm import Algorithm, AnyReduction, all_gather, all_to_all
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import CollectiveRequest, Packet
from polyrhythm.core.protocols.topology import WorkerEndpoint
from polyrhythm.core.protocols.weights import WeightsView
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree


class CollectiveClient:
    """Drives a codec's aggregations of vectors of one layout, one after the other.

    Requests are counted, and their numbers are the topics, so that no two are confused; `name` distinguishes several clients of the same
    workers.
    """

    def __init__(self, reduction: AnyReduction, codec: Codec, endpoint: WorkerEndpoint, name: str = "") -> None:
        self.reduction = reduction
        self.codec = codec
        self.group = endpoint.group
        self.port = endpoint.port
        self.name = name
        self.context = ExchangeContext(self.group, self.port.rng(f"codec{name}"))
        self.layout = Layout((), ())
        self.weights: Callable[[], Tensor]
        self.held: WeightsView
        self.state: State = {}
        self.interrupted: tuple[Aggregation, CollectiveRequest] | None = None
        """An aggregation that was broken off in that request."""
        self.requests = 0

    def open(self, layout: Layout, weights: Callable[[], Tensor], held: WeightsView) -> None:
        """Begin with nothing sent yet; `weights` gives the worker's weights of `layout`, which is `held`'s or a part of it."""
        self.layout = layout
        self.weights = weights
        self.held = held
        self.context = self.context.changed(rates=held.rates)
        self.state = self.codec.initial(layout)

    async def sum(self, value: Tensor, clock: int) -> Tensor:
        """The sum of what all send of their values (numel,) after step `clock`, for a caller that does not see codecs."""
        return (await self.aggregate(value, clock)).total

    async def aggregate(self, value: Tensor, clock: int) -> Aggregated:
        """The sum over all workers after step `clock`, with the part of it that this worker has sent."""
        aggregation, since = self.begin(value, clock), self.port.now()
        response: Any = None
        while True:
            try:
                request = aggregation.send(response)
            except StopIteration as end:
                self.port.progressed(self.subject, "exchange", since)
                aggregated: Aggregated = end.value
                self.end(aggregated)
                return aggregated
            response = await request.perform(self)

    def begin(self, value: Tensor, clock: int) -> Aggregation:
        """The requests that a sum takes, for a caller that performs them itself."""
        return self._watched(self.codec.aggregate(value, self.layout, self.state, self.context.at(clock, self.weights, self.held.factors)))

    def _watched(self, aggregation: Aggregation) -> Aggregation:
        response: Any = None
        while True:
            try:
                request = aggregation.send(response)
            except StopIteration as end:
                aggregated: Aggregated = end.value
                return aggregated
            try:
                response = yield request
            except GeneratorExit:
                self.interrupted = aggregation, request
                raise

    def end(self, aggregated: Aggregated) -> Tensor:
        """Keep the codec's state after an aggregation, and return its sum."""
        self.state = aggregated.state
        return aggregated.total

    def all_reduce(self, value: Tensor) -> Coroutine[Any, Any, Tensor]:
        return self.reduction.reduce(self.port, self.group, value, self.topic())

    async def reduce_in_place(self, parts: Sequence[Tensor], divisor: float, schedule: Algorithm) -> bool:
        """Put the sum of the `parts` of all, divided, in their place, if the runtime can; False: no request was made."""
        done = await self.port.reduce_in_place(parts, divisor, f"{self.name}{self.requests + 1}", self.group, schedule)
        if done:
            self.requests += 1
        return bool(done)

    def all_gather(self, packet: Packet) -> Coroutine[Any, Any, list[Packet]]:
        return all_gather(self.port, self.group, packet, self.topic())

    def all_to_all(self, packets: Sequence[Packet]) -> Coroutine[Any, Any, list[Packet]]:
        return all_to_all(self.port, self.group, packets, self.topic())

    @property
    def subject(self) -> str:
        """The vector's name in a timeline: the first tensor, and how many follow."""
        names = self.layout.names
        return (names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")) if names else "nothing"

    def states(self) -> list[tuple[State, Tensor]]:
        """The codec's state and its residual (numel,), for an interrupted sum as if it had come; none before `open`."""
        self._settle()
        return [(self.state, self.codec.residual(self.state, self.layout))] if self.layout.names else []

    def _settle(self) -> None:
        """Take an interrupted sum for one that the others have completed: all was sent, and what is kept does not depend on the others."""
        if self.interrupted is None:
            return
        (aggregation, request), self.interrupted = self.interrupted, None
        if self.codec.traits.recodes:  # what was kept of the sums is not known without them
            self.state = self.codec.joined(self.state, self.layout)
            return
        try:
            aggregation.send(request.repeated(self.group))
        except StopIteration as end:
            self.state = end.value.state

    def export(self) -> StateTree:
        return {"requests": self.requests, "codec": self.state}

    def restore(self, state: StateTree) -> None:
        self.requests, self.state = state["requests"], state["codec"]

    def take_over(self, state: StateTree, own: bool) -> None:
        """Continue with the codec's state, as `Channel.take_over` does."""
        (self.state,) = taken_over(self.codec, [state["codec"]], [self.layout], own)

    def inherit(self, residual: Tensor) -> None:
        """Add the residual (numel,) of a worker that has left."""
        self.state = self.codec.inherit(self.state, residual, self.layout)

    def topic(self) -> str:
        """The topic of the next request, which counts as made."""
        self.requests += 1
        return f"{self.name}{self.requests}"
