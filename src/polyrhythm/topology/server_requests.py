"""What a worker says to the shards of parameter servers, and how it takes in their responses."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from torch import Tensor

from polyrhythm.kernel.message import Message
from polyrhythm.pieces.codec import packets
from polyrhythm.pieces.context import ExchangeContext
from polyrhythm.pieces.topology import Agreement, InitialState, WorkerEndpoint
from polyrhythm.pieces.weights import WeightsView
from polyrhythm.tensors import Layout, State

REQUESTS = "ask"
"""All that workers say to a shard has this topic, so that a shard hears each worker in the order in which it spoke."""
JOIN, PUSH, DONE, WAKE, FETCH = 0.0, 1.0, 2.0, 3.0, 4.0
"""The kinds of request; the first number of each. A shard wakes itself when a worker was lost."""
NOTHING, NEWER, WEIGHTS = 0.0, 1.0, 2.0
"""What a push or a fetch asks for: no response; the weights if there is a newer version than the sender's; the weights in any case."""


class Founding(msgspec.Struct, frozen=True):
    """What worker 0 tells a shard at the beginning: names and shapes of its part, and how to build the user's optimizer."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    optimizer: str


class ServerRequests:
    """One worker's requests to all shards.

    `versions` and `clocks` are, by shard, the version and the slowest clock that the last response told: how stale one's weights may be.
    """

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint) -> None:
        self.codec = packets(agreement.codec)
        self.group = endpoint.group
        self.port = endpoint.port
        self.names = endpoint.servers
        self.model_state: WeightsView
        self.parts: list[Layout]
        self.coded: list[State]
        self.versions = [0] * len(self.names)
        self.clocks = [0.0] * len(self.names)
        self.context = ExchangeContext(self.group, self.port.rng("codec"))

    async def join(self, initial: InitialState) -> Tensor:
        """Worker 0 brings the weights, and all get them (numel,)."""
        self.model_state = initial.model_state
        self.parts = self.model_state.layout.split(len(self.names))
        self.coded = [self.codec.initial(part) for part in self.parts]
        if self.group.rank == 0:
            for name, part, piece in zip(self.names, self.parts, self.cut(initial.weights()), strict=True):
                founding = msgspec.json.encode(Founding(part.names, part.shapes, initial.optimizer)).decode()
                await self.port.send(name, Message(REQUESTS, (JOIN,), founding, (piece,)))
        else:
            for name in self.names:
                await self.port.send(name, Message(REQUESTS, (JOIN,)))
        return await self.responses()

    def cut(self, flat: Tensor) -> list[Tensor]:
        """The parts of `flat` (numel,) that belong to each shard, as views."""
        return self.model_state.layout.cut(flat, self.parts)

    async def push(self, value: Tensor, clock: int, asks: Sequence[float], rates: tuple[float, ...]) -> Tensor:
        """Tell each shard its part of `value` (numel,) and what is asked of it: what all of them were told, in the codec's words."""
        sent = []
        await self.port.flush()  # where no response is waited for, pushes would pile up on a line that is too slow
        contexts = self.context.at(clock, lambda: self.model_state.weights).parts(self.parts)
        for k, (part, piece) in enumerate(zip(self.parts, self.cut(value), strict=True)):
            encoded = self.codec.encode(piece, part, self.coded[k], contexts[k])
            self.coded[k] = encoded.state
            sent.append(encoded.sent)
            numbers = (PUSH, float(clock), float(self.versions[k]), asks[k], *rates)
            await self.port.send(self.names[k], Message(REQUESTS, numbers, tensors=encoded.packet))
        return torch.cat(sent)

    async def fetch(self, clock: int, asks: Sequence[float]) -> None:
        """Ask without telling anything."""
        for k, name in enumerate(self.names):
            if asks[k] != NOTHING:
                await self.port.send(name, Message(REQUESTS, (FETCH, float(clock), float(self.versions[k]), asks[k])))

    async def done(self) -> None:
        """Say that this was all."""
        for name in self.names:
            await self.port.send(name, Message(REQUESTS, (DONE,)))

    async def response(self, shard: int, timeout: float | None = None) -> Tensor | None:
        """The shard's weights (numel of its part,); None if no response came in time. A version that is known comes without weights."""
        delivery = await self.port.receive(f"w{shard}", self.names[shard], timeout)
        if delivery is None:
            return None
        version, self.clocks[shard] = delivery.message.numbers
        self.versions[shard] = int(version)
        return delivery.message.tensors[0] if delivery.message.tensors else self.cut(self.model_state.anchor)[shard].cpu()

    async def responses(self) -> Tensor:
        """The weights of all shards (numel,), in order."""
        weights = [await self.response(k) for k in range(len(self.names))]
        return torch.cat([part for part in weights if part is not None])

    def states(self) -> list[tuple[State, Tensor]]:
        """The codec's states and what each owes, by shard."""
        return [(state, self.codec.residual(state, part)) for state, part in zip(self.coded, self.parts, strict=True)]
