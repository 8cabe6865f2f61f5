"""The collectives of an axis over the messages of a run: by messages, or natively where the runtime has its own.

Both give the same bits, and count the same bytes: those of the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import NativeCollectives
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.shared_memory import Operation
from polyrhythm.core.shared_memory.engine import ADDS
from polyrhythm.partition.pieces import Pieces, fill, first_of, joined, length_of
from polyrhythm.process_group.messages.algorithms.own import OwnAlgorithms, exchanges_all
from polyrhythm.process_group.messages.party import Party
from polyrhythm.process_group.operations import Reduction

SUM, MAXIMUM = Reduction(Operation.SUM, False), Reduction(Operation.MAXIMUM, False)
_OWN = OwnAlgorithms()
_ONE_ROUND_BYTES = 4096
"""Up to so many bytes everyone's go to everyone, where messages do so too."""


class AxisCollectives(Protocol):
    """What the operations of an axis are made of. Tensors are contiguous; results lie elsewhere than what is given."""

    async def all_reduce(self, party: Party, flat: Tensor, how: Reduction) -> Tensor:
        """The reduction of everyone's `flat` (numel,)."""

    async def reduce(self, party: Party, flat: Tensor, target: int) -> Tensor | None:
        """The sum of everyone's `flat` (numel,) at the rank `target`; None at others."""

    async def gather(self, party: Party, own: Pieces, places: Sequence[Pieces]) -> None:
        """Write what every rank k has as `own` into `places[k]`, which are together as long."""

    async def reduce_scatter(self, party: Party, parts: Sequence[Pieces], into: Pieces, divisor: float) -> None:
        """Write the sum of what all have as `parts` of this rank, divided by `divisor`, into `into`."""

    async def broadcast(self, party: Party, flat: Tensor, source: int) -> Tensor:
        """The `flat` (numel,) of the rank `source`."""

    async def all_to_all(self, party: Party, parts: Pieces) -> list[Tensor]:
        """What each has for this rank: part k goes to rank k."""


@dataclass(frozen=True, slots=True)
class ByMessages:
    """Each piece of news is a message, along rings and trees as in `OwnAlgorithms`."""

    async def all_reduce(self, party: Party, flat: Tensor, how: Reduction) -> Tensor:
        return await _OWN.all_reduce(party, flat, how)

    async def reduce(self, party: Party, flat: Tensor, target: int) -> Tensor | None:
        return await _OWN.reduce(party, flat, SUM, target)

    async def gather(self, party: Party, own: Pieces, places: Sequence[Pieces]) -> None:
        for pieces, found in zip(places, await _OWN.all_gather(party, joined(own, places)), strict=True):
            fill(pieces, found)

    async def reduce_scatter(self, party: Party, parts: Sequence[Pieces], into: Pieces, divisor: float) -> None:
        total = await _OWN.reduce_scatter(party, [joined(pieces, parts) for pieces in parts], SUM)
        fill(into, total / divisor if divisor != 1 else total)

    async def broadcast(self, party: Party, flat: Tensor, source: int) -> Tensor:
        [found] = await _OWN.broadcast(party, [flat], source)
        return found

    async def all_to_all(self, party: Party, parts: Pieces) -> list[Tensor]:
        return await _OWN.all_to_all(party, parts)


@dataclass(frozen=True, slots=True)
class Natively:
    """The runtime's native collectives of `group`; what it has none for goes by messages.

    Sums are made in the order of `OwnAlgorithms`. Where members have called different collectives, messages tell who, and where.
    """

    group: Group
    messages: ByMessages = field(default_factory=ByMessages)

    async def all_reduce(self, party: Party, flat: Tensor, how: Reduction) -> Tensor:
        if flat.dtype not in ADDS or how != SUM:
            return await self.messages.all_reduce(party, flat, how)
        sent, parts = _Sent(party), torch.tensor_split(flat, party.size)
        if exchanges_all(party.size, flat.nbytes):
            for _ in range(party.size - 1):
                sent.add("all", flat)
        else:
            sent.around("r", parts, party.rank - 1)
            sent.around("g", parts, party.rank)
        if flat.nbytes <= _ONE_ROUND_BYTES:
            everyones = flat.new_empty(party.size, flat.numel())
            await self._made(party, sent, lambda group: group.gather([flat], [[each] for each in everyones]))
            total = everyones[0]
            for other in everyones[1:]:
                total = total + other
            return total
        found = torch.empty_like(flat)  # of two, the order makes no difference
        places = torch.tensor_split(found, party.size)

        def made(group: NativeCollectives) -> None:
            group.reduce_scatter([[part] for part in parts], [places[party.rank]])
            group.gather([places[party.rank]], [[place] for place in places])

        await self._made(party, sent, made)
        return found

    async def reduce(self, party: Party, flat: Tensor, target: int) -> Tensor | None:
        return await self.messages.reduce(party, flat, target)

    async def gather(self, party: Party, own: Pieces, places: Sequence[Pieces]) -> None:
        sent = _Sent(party)
        sent.around("g", _lengths(places), party.rank)
        await self._made(party, sent, lambda group: group.gather(own, places))

    async def reduce_scatter(self, party: Party, parts: Sequence[Pieces], into: Pieces, divisor: float) -> None:
        if any(piece.dtype not in ADDS for pieces in parts for piece in pieces):
            return await self.messages.reduce_scatter(party, parts, into, divisor)
        sent = _Sent(party)
        sent.around("r", _lengths(parts), party.rank - 1)
        return await self._made(party, sent, lambda group: group.reduce_scatter(parts, into, divisor))

    async def broadcast(self, party: Party, flat: Tensor, source: int) -> Tensor:
        found, sent = torch.empty_like(flat), _Sent(party)
        for _ in range(_children(party, source)):
            sent.add("b", flat)
        empty = flat[:0]
        places = [[found if rank == source else empty] for rank in range(party.size)]
        await self._made(party, sent, lambda group: group.gather([flat if party.rank == source else empty], places))
        return found

    async def all_to_all(self, party: Party, parts: Pieces) -> list[Tensor]:
        return await self.messages.all_to_all(party, parts)

    async def _made(self, party: Party, sent: _Sent, make: Callable[[NativeCollectives], None]) -> None:
        party.tally.nbytes += sent.nbytes
        if await party.port.collective(make, party.topic, self.group, (sent.nbytes, sent.messages)) is False:
            await self._differing(party)

    async def _differing(self, party: Party) -> None:
        """Raise RunError with what this rank and another have issued."""
        others = [rank for rank in range(party.size) if rank != party.rank]
        for rank in others:
            await party.send(rank, "said")
        for rank in others:
            await party.receive(rank, "said")


class _Sent:
    """What a member would send in messages for one collective."""

    def __init__(self, party: Party) -> None:
        self._header = wire_bytes(Message(f"{party.topic}//{party.rank}", text=party.call.signature, tensors=(torch.empty(0),)))
        self.nbytes = self.messages = 0

    def add(self, name: str, part: Tensor) -> None:
        """One message."""
        self.nbytes += self._header + len(name) + part.nbytes
        self.messages += 1

    def around(self, name: str, parts: Pieces, first: int) -> None:
        """A message for each step around a ring: with the part `first`, the one before it, and so on."""
        for step in range(len(parts) - 1):
            self.add(f"{name}{step}", parts[(first - step) % len(parts)])


def _children(party: Party, source: int) -> int:
    """To how many a member passes on what comes down a binomial tree."""
    place, reach, found = (party.rank - source) % party.size, 1, 0
    while reach < party.size and not place & reach:
        found += place + reach < party.size
        reach <<= 1
    return found


def _lengths(parts: Sequence[Pieces]) -> list[Tensor]:
    """Tensors without memory, as long as those of each rank together."""
    dtype = first_of(parts).dtype
    return [torch.empty(length_of(pieces), dtype=dtype, device="meta") for pieces in parts]
