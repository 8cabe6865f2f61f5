"""An axis over the messages of a run: the workers of `pr.run`, on real processes or in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.partition.axis import NARROW, Arrived, Counts, Pending, Sizes, summand
from polyrhythm.partition.axis_collectives import MAXIMUM, SUM, AxisCollectives, ByMessages
from polyrhythm.partition.pieces import Pieces, first_of, length_of, reduce_scatter_into
from polyrhythm.process_group.messages.calls import IssuedCall, line_of_caller
from polyrhythm.process_group.messages.desk import Desk
from polyrhythm.process_group.messages.party import BytesSent, Party

T = TypeVar("T")
_BY_MESSAGES = ByMessages()


@dataclass(frozen=True, slots=True)
class NoLedger:
    """Compares nothing when a collective is issued: each message has what its sender has issued, which the receiver compares."""

    def compare(self, rank: int, call: IssuedCall) -> None:
        """Nothing to compare with here."""


class PortAxis:
    """The `Axis` of that `name` among the workers of `group`. Operations are issued at `desk`, and recorded with what they sent.

    Operations between all are made of `collectives`, all others of messages.
    """

    def __init__(self, name: str, group: Group, desk: Desk, collectives: AxisCollectives = _BY_MESSAGES) -> None:
        self._by = collectives
        self.name, self.size, self.index = name, group.size, group.rank
        self.counts = Counts(self.size)
        self.calls, self.nbytes = self.counts.calls, self.counts.nbytes
        self._group, self._desk, self._issued = group, desk, 0
        self._sent, self._awaited, self._exchanged = Counter[int](), Counter[int](), Counter[int]()

    def all_reduce(self, value: Tensor) -> Tensor:
        self.counts.reduced("all_reduce", value)
        flat = summand(value).view(-1)
        return self._do("all_reduce SUM", value, lambda party: self._by.all_reduce(party, flat, SUM)).view(value.shape).to(value.dtype)

    def maximum(self, value: Tensor) -> Tensor:
        self.counts.reduced("maximum", value)
        flat = value.detach().reshape(-1)
        return self._do("all_reduce MAX", value, lambda party: self._by.all_reduce(party, flat, MAXIMUM)).view(value.shape)

    def all_gather(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        self.counts.gathered(value)
        own = value.detach().movedim(dim, 0).contiguous()
        whole = own.new_empty(sum(sizes), *own.shape[1:])
        places = [[rows] for rows in torch.split(whole, list(sizes))]
        self._do("all_gather", value.new_empty(0), lambda party: self._by.gather(party, [own], places))
        return whole.movedim(0, dim).contiguous()

    def gather_into(self, own: Pieces, places: Sequence[Pieces]) -> None:
        like = first_of(places)
        self.counts.add("all_gather", length_of(own) * (self.size - 1), like)
        self._do("all_gather", like.new_empty(0), lambda party: self._by.gather(party, own, places))

    def reduce_scatter(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        rows = summand(value.detach().movedim(dim, 0))
        parts = [[part] for part in torch.split(rows, list(sizes))]
        own = rows.new_empty(sizes[self.index], *rows.shape[1:])
        self._do("reduce_scatter SUM", value, lambda party: self._by.reduce_scatter(party, parts, [own], 1.0))
        self.counts.scattered(value, own.numel())
        return own.to(value.dtype).movedim(0, dim).contiguous()

    def reduce_scatter_into(self, parts: Sequence[Pieces], into: Pieces, divisor: float) -> None:
        like, elements = first_of(parts), [length_of(pieces) for pieces in parts]
        if like.dtype in NARROW:
            return reduce_scatter_into(self, parts, into, divisor)
        self.counts.add("reduce_scatter", sum(elements) - elements[self.index], like)
        whole = torch.empty(sum(elements), dtype=like.dtype, device="meta")
        return self._do("reduce_scatter SUM", whole, lambda party: self._by.reduce_scatter(party, parts, into, divisor))

    def all_to_all(self, values: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
        sent = sum(value.numel() for k, value in enumerate(values) if k != self.index)
        self.counts.add("all_to_all", sent, values[0])
        parts = [value.detach().reshape(-1) for value in values]
        found = self._do("all_to_all", values[0].new_empty(0), lambda party: self._by.all_to_all(party, parts))
        return [part.view(tuple(shape)) for part, shape in zip(found, shapes, strict=True)]

    def broadcast(self, value: Tensor, source: int) -> Tensor:
        self.counts.add("broadcast", value.numel() * (self.size - 1) / self.size, value)
        flat = value.detach().reshape(-1)
        return self._do(f"broadcast from {source}", value, lambda party: self._by.broadcast(party, flat, source)).view(value.shape)

    def reduce(self, value: Tensor, target: int) -> Tensor:
        self.counts.add("reduce", value.numel() * (self.size - 1) / self.size, value)
        flat = summand(value).view(-1)
        total = self._do(f"reduce SUM to {target}", value, lambda party: self._by.reduce(party, flat, target))
        return torch.zeros_like(value) if total is None else total.view(value.shape).to(value.dtype)

    def shift(self, value: Tensor, by: int, shape: Sequence[int]) -> Tensor:
        self.counts.add("shift", value.numel(), value)
        if not by % self.size:
            return value.detach().clone()
        to, source = (self.index + by) % self.size, (self.index - by) % self.size
        return self._at_once({to: value}, {source: shape})[source]

    def exchange(self, to: dict[int, Tensor], shapes: dict[int, Sequence[int]], like: Tensor) -> dict[int, Tensor]:
        self.counts.add("exchange", sum(value.numel() for value in to.values()), like)
        return self._at_once(to, shapes)

    def send_to(self, value: Tensor, target: int) -> Pending:
        self.counts.add("send_to", value.numel(), value)
        self._sent[target] += 1
        call = self._call(f"send to {target}", value)
        message = Message(
            self._between(self.index, target, self._sent[target]), text=call.signature, tensors=(value.detach().reshape(-1).clone(),)
        )
        since = self._desk.port.now()
        self._desk.perform(self._blocked(call, lambda: self._send(self._group.members[target], message)), call)
        self._desk.record(call, wire_bytes(message), since)
        return Arrived(value)

    def receive_from(self, source: int, shape: Sequence[int], like: Tensor) -> Pending:
        self._awaited[source] += 1
        topic, call = self._between(source, self.index, self._awaited[source]), self._call(f"receive from {source}", like.new_empty(0))
        return _Coming(lambda: self._desk.perform(self._blocked(call, lambda: self._receive(topic, source)), call).view(tuple(shape)))

    def _between(self, source: int, target: int, number: int) -> str:
        return f"axis/{self._group.name or self.name}/{source}>{target}/{number}"

    async def _send(self, to: str, message: Message) -> None:
        await self._desk.port.send(to, message)

    async def _receive(self, topic: str, source: int) -> Tensor:
        delivery = await self._desk.port.receive(topic, self._group.members[source])
        assert delivery is not None, "it is waited for without a limit"
        return delivery.message.tensors[0]

    def _at_once(self, to: dict[int, Tensor], shapes: dict[int, Sequence[int]]) -> dict[int, Tensor]:
        """Between pairs, each with numbers of its own: ranks that have nothing to do with it need not call it."""
        self._exchanged.update([*to, *(source for source in shapes if source not in to)])
        call = self._call("exchange", next(iter(to.values()), torch.empty(0)).new_empty(0))
        sent = {rank: value.detach().reshape(-1).clone() for rank, value in to.items()}
        since, tally = self._desk.port.now(), BytesSent()

        async def moved() -> dict[int, Tensor]:
            for rank, value in sent.items():
                message = Message(self._exchange_topic(self.index, rank, rank), text=call.signature, tensors=(value,))
                tally.nbytes += wire_bytes(message)
                await self._desk.port.send(self._group.members[rank], message)
            found = {}
            for source, shape in shapes.items():
                found[source] = (await self._receive(self._exchange_topic(source, self.index, source), source)).view(tuple(shape))
            return found

        result = self._desk.perform(self._blocked(call, moved), call)
        self._desk.record(call, tally.nbytes, since)
        return result

    def _exchange_topic(self, source: int, target: int, other: int) -> str:
        return f"axis/{self._group.name or self.name}/x/{source}>{target}/{self._exchanged[other]}"

    def _do(self, kind: str, of: Tensor, doing: Callable[[Party], Coroutine[Effect[Any], Any, T]]) -> T:
        self._issued += 1
        call = self._call(kind, of)
        self._desk.issue(call)
        tally, since = BytesSent(), self._desk.port.now()
        party = Party(self._desk.port, self._group.members, self.index, f"axis/{call.group}/{self._issued}", call, tally)
        result = self._desk.perform(self._blocked(call, lambda: doing(party)), call)
        self._desk.record(call, tally.nbytes, since)
        return result

    def _call(self, kind: str, of: Tensor) -> IssuedCall:
        shape = f"{str(of.dtype).removeprefix('torch.')} {list(of.shape)}" if of.numel() else ""
        return IssuedCall(kind, shape, self._group.name or self.name, self._group.members, self._issued, line_of_caller(), self.name)

    async def _blocked(self, call: IssuedCall, begin: Callable[[], Coroutine[Effect[Any], Any, T]]) -> T:
        """What `begin` makes, which is made when it runs: a program that has been stopped does not wait for it any more."""
        self._desk.block(call)
        return await begin()


class _Coming:
    """A tensor that comes; `receive` waits for it."""

    def __init__(self, receive: Callable[[], Tensor]) -> None:
        self._receive = receive

    def wait(self) -> Tensor:
        return self._receive()
