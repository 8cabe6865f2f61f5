"""The collectives of a process group, made of messages between its members.

`MessageGroup` issues them, in virtual time and between hosts. All members issue the same ones in the same order. Tensors are flat and
contiguous; what is sent is not written to afterwards. The number of messages of a member and the bytes that it sends, of P members:

    all_reduce       2 (P - 1), 2 (P - 1) / P of the tensor: a ring (Patarin and Dowd, 2009); below `_FEW_BYTES` everybody sends the whole
    reduce_scatter   P - 1, (P - 1) / P of the input: the first half of that ring
    all_gather       P - 1, P - 1 of the inputs: the second half
    broadcast        at most log2 P, each the whole tensor: a binomial tree
    gather, scatter  one for each member, between it and the root
    all_to_all       P - 1, what the others get
    barrier          log2 P: dissemination (Hensgen, Finkel and Manber, 1988)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Schedule
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.shared_memory import Operation
from polyrhythm.process_group.messages.calls import IssuedCall
from polyrhythm.process_group.operations import Reduction, apply

_FEW_BYTES = 4096
"""Up to so many bytes a sum needs one exchange of all with all: a ring would take 2 (P - 1) latencies."""


@dataclass(slots=True)
class BytesSent:
    """The bytes that a member has sent for one collective."""

    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Party:
    """One member, that of `rank`, in one collective of a group: `call` is what it issues, `topic` that of its messages, and
    `tally` counts what it sends."""

    port: Port
    members: tuple[str, ...]
    rank: int
    topic: str
    call: IssuedCall
    tally: BytesSent
    within: float | None = None
    """The seconds that it waits for each message, if they are limited."""
    closed: Schedule | None = None
    """The closed form of a large sum, by which a runtime may charge it in the place of its messages."""

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)

    async def send(self, to: int, part: str, *tensors: Tensor) -> None:
        """Send to the member of rank `to`."""
        message = Message(f"{self.topic}/{part}/{self.rank}", text=self.call.signature, tensors=tensors)
        self.tally.nbytes += wire_bytes(message)
        await self.port.send(self.members[to], message)

    async def receive(self, source: int, part: str) -> tuple[Tensor, ...]:
        """What the member of rank `source` has sent. Raises RunError if it has issued another collective, DistBackendError if it does
        not come in time."""
        delivery = await self.port.receive(f"{self.topic}/{part}/{source}", self.members[source], self.within)
        if delivery is None:
            raise self.call.late(rank_of(self.members[self.rank]), f"rank {rank_of(self.members[source])}", self.within)
        if delivery.message.text != self.call.signature:
            self.call.compare(delivery.message.text, rank_of(self.members[self.rank]), rank_of(self.members[source]))
        return delivery.message.tensors


async def all_reduce(party: Party, flat: Tensor, how: Reduction) -> Tensor:
    """The reduction of everyone's `flat` (numel,)."""
    if flat.numel() * flat.element_size() <= _FEW_BYTES or party.size == 2:
        everyones = await _exchange_all(party, flat, "all")
        return how.finish(_fold(everyones, how), party.size)
    if party.closed is not None and how.operation is Operation.SUM:
        group = Group(party.topic, party.members, party.rank)
        total = await party.port.reduce(flat.clone(), party.topic, group, party.closed)
        if total is not None:
            party.tally.nbytes += party.closed.traffic(flat, party.size, party.topic)[0] // party.size
            return how.finish(total, party.size)
    parts = list(torch.tensor_split(flat, party.size))
    parts[party.rank] = await reduce_scatter(party, parts, how)
    return torch.cat(await all_gather(party, parts[party.rank]))


async def reduce_scatter(party: Party, parts: Sequence[Tensor], how: Reduction) -> Tensor:
    """Part `rank` of the reduction of everyone's `parts`. Part k is added up from member k + 1 on, around the ring to member k."""
    size, rank = party.size, party.rank
    if size == 1:
        return how.finish(parts[0].clone(), 1)
    passed = parts[(rank - 1) % size].clone()
    for step in range(size - 1):
        await party.send((rank + 1) % size, f"r{step}", passed)
        [received] = await party.receive((rank - 1) % size, f"r{step}")
        passed = apply(how.operation, received, parts[(rank - 2 - step) % size])
    return how.finish(passed, size)


async def all_gather(party: Party, own: Tensor) -> list[Tensor]:
    """Everyone's `own`, by rank, around a ring; they may differ in size."""
    size, rank = party.size, party.rank
    found = {rank: own.clone()}
    for step in range(size - 1):
        source = (rank - step) % size
        await party.send((rank + 1) % size, f"g{step}", found[source])
        [found[(source - 1) % size]] = await party.receive((rank - 1) % size, f"g{step}")
    return [found[each] for each in range(size)]


async def broadcast(party: Party, tensors: Sequence[Tensor], root: int) -> Sequence[Tensor]:
    """The root's `tensors`, down a binomial tree."""
    size = party.size
    place, reach = (party.rank - root) % size, 1
    while reach < size:
        reach <<= 1
    if place == 0:
        held: Sequence[Tensor] = [tensor.clone() for tensor in tensors]
    else:
        lowest = place & -place
        held, reach = await party.receive((place - lowest + root) % size, "b"), lowest
    while (reach := reach >> 1) > 0:
        if place + reach < size:
            await party.send((place + reach + root) % size, "b", *held)
    return held


async def reduce(party: Party, flat: Tensor, how: Reduction, root: int) -> Tensor | None:
    """The reduction of everyone's `flat` at the root; None at the others."""
    if flat.numel() * flat.element_size() <= _FEW_BYTES:
        everyones = await gather(party, flat, root)
        return None if everyones is None else how.finish(_fold(everyones, how), party.size)
    part = await reduce_scatter(party, torch.tensor_split(flat, party.size), how)
    everyones = await gather(party, part, root)
    return None if everyones is None else torch.cat(everyones)


async def gather(party: Party, own: Tensor, root: int) -> list[Tensor] | None:
    """Everyone's `own` at the root; None at the others."""
    if party.rank != root:
        await party.send(root, "g", own.clone())
        return None
    return [own.clone() if source == root else (await party.receive(source, "g"))[0] for source in range(party.size)]


async def scatter(party: Party, parts: Sequence[Tensor], root: int) -> Tensor:
    """The part of this rank of the root's `parts`."""
    if party.rank != root:
        return (await party.receive(root, "s"))[0]
    for to in range(party.size):
        if to != root:
            await party.send(to, "s", parts[to].clone())
    return parts[root].clone()


async def all_to_all(party: Party, parts: Sequence[Tensor]) -> list[Tensor]:
    """What each has for this rank: part k goes to rank k. The next ranks come first, so that nobody is sent to by all at once."""
    size, rank = party.size, party.rank
    for distance in range(1, size):
        to = (rank + distance) % size
        await party.send(to, "t", parts[to].clone())
    return [parts[rank].clone() if source == rank else (await party.receive(source, "t"))[0] for source in range(size)]


async def barrier(party: Party) -> None:
    """Return when all have come."""
    reach = 1
    while reach < party.size:
        await party.send((party.rank + reach) % party.size, f"w{reach}")
        await party.receive((party.rank - reach) % party.size, f"w{reach}")
        reach <<= 1


async def _exchange_all(party: Party, flat: Tensor, part: str) -> list[Tensor]:
    own = flat.clone()
    for distance in range(1, party.size):
        await party.send((party.rank + distance) % party.size, part, own)
    return [own if source == party.rank else (await party.receive(source, part))[0] for source in range(party.size)]


def _fold(everyones: Sequence[Tensor], how: Reduction) -> Tensor:
    """Their reduction in the order of ranks, the same at all members."""
    total = everyones[0]
    for each in everyones[1:]:
        total = apply(how.operation, total, each)
    return total
