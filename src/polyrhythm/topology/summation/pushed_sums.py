"""A worker's pushes to servers that sum, and the sums that come back."""

from __future__ import annotations

import msgspec
from torch import Tensor

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.protocols.codec import inherited, packets, taken_over
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.division import Divided, Division, place_of
from polyrhythm.core.protocols.topology import Agreement, WorkerEndpoint
from polyrhythm.core.tensors import Layout, State
from polyrhythm.core.trees import StateTree
from polyrhythm.topology.summation.decoded_sums import LAYOUT, PUSHES, SumLayout
from polyrhythm.topology.summation.send_queue import SendQueue
from polyrhythm.topology.summation.sum_server import drained
from polyrhythm.topology.summation.sum_source import SingleTensor


class PushedSums:
    """A `SumSource` for all tensors of a vector. `pieces` has, for each tensor by name, its pieces, each with the number of its server."""

    def __init__(self, agreement: Agreement, endpoint: WorkerEndpoint, division: Division) -> None:
        self.codec = packets(agreement.codec)
        self.endpoint = endpoint
        self.port = endpoint.port
        self.servers = endpoint.servers
        self.division = division
        self.queue = SendQueue(self.port, len(self.servers))
        self.pieces: dict[str, list[tuple[int, Layout]]] = {}

    async def begin(self, layout: Layout) -> None:
        """Worker 0 tells the servers which pieces they will get."""
        numbers = {name: number for number, name in enumerate(layout.names)}
        for server, part in enumerate(self.division.parts(layout, len(self.servers))):
            for name, shape in zip(part.names, part.shapes, strict=True):
                whole, _ = place_of(name, numbers)
                self.pieces.setdefault(whole, []).append((server, Layout((name,), (shape,))))
        for pieces in self.pieces.values():
            pieces.sort(key=lambda each: place_of(each[1].names[0], numbers)[1])
        if self.endpoint.group.is_first:
            for server, name in enumerate(self.servers):
                mine = {str(numbers[whole]): piece for whole, pieces in self.pieces.items() for at, piece in pieces if at == server}
                shapes = SumLayout({number: (piece.names[0], piece.shapes[0]) for number, piece in mine.items()})
                await self.port.send(name, Message(LAYOUT, text=msgspec.json.encode(shapes).decode()))

    def tensor(self, single: SingleTensor) -> _Tensor:
        return _Tensor(self, single)

    async def finish(self) -> None:
        await self._leave(Message(PUSHES))

    async def drain(self, step: int) -> str:
        await self._leave(Message(PUSHES, (float(step),)))
        return await drained(self.port, dict(enumerate(self.servers)))

    async def _leave(self, last: Message) -> None:
        await self.queue.drain()
        for name in self.servers:
            await self.port.send(name, last)


class _Tensor:
    """The pieces of one tensor, each with the state of its codec; `rounds` counts its sums."""

    def __init__(self, common: PushedSums, single: SingleTensor) -> None:
        self.common = common
        self.single = single
        owned = common.pieces.get(single.layout.names[0], [])
        self.servers = [server for server, _ in owned]
        self.divided = Divided.of(single.layout, [piece for _, piece in owned])
        self.coded = [common.codec.initial(piece) for piece in self.divided.parts]
        name = f"codec{single.number}/" if single.number else "codec"
        self.context = ExchangeContext(common.endpoint.group, common.port.rng(name))
        self.rounds = 0

    async def sum(self, value: Tensor, clock: int) -> Tensor:
        common, self.rounds = self.common, self.rounds + 1
        since = common.port.now()
        topic, priority = f"{self.single.number}.{self.rounds}", (self.single.number,)
        context = self.context.at(clock, self.single.weights, self.single.held.factors)
        contexts = context.divided(self.divided.parts, self.divided.cut)
        for k, (piece, part) in enumerate(zip(self.divided.cut(value), self.divided.parts, strict=True)):
            encoded = common.codec.encode(piece, part, self.coded[k], contexts[k])
            self.coded[k] = encoded.state
            await common.queue.put(priority, common.servers[self.servers[k]], Message(PUSHES, text=topic, tensors=encoded.packet))
        sums = []
        for server in self.servers:
            delivery = await common.port.receive(f"{topic}.{server}", common.servers[server])
            assert delivery is not None
            sums.append(delivery.message.tensors[0])
        common.port.progressed(self.single.layout.names[0], "exchange", since)
        return self.divided.join(sums) if sums else value

    def take_over(self, state: StateTree, own: bool) -> None:
        self.coded = taken_over(self.common.codec, state["codec"], self.divided.parts, own)

    def inherit(self, residual: Tensor) -> None:
        self.coded = inherited(self.common.codec, self.coded, self.divided.parts, self.divided.cut(residual))

    def states(self) -> list[tuple[State, Tensor]]:
        pairs = zip(self.coded, self.divided.parts, strict=True)
        return [(state, self.common.codec.residual(state, part)) for state, part in pairs]

    def export(self) -> StateTree:
        return {"codec": self.coded, "rounds": self.rounds}

    def restore(self, state: StateTree) -> None:
        self.coded, self.rounds = state["codec"], state["rounds"]
