"""The collectives of the backend "gloo": a tensor leaves only when its receiver has announced that it waits for it.

So each message costs a round trip, unless its receive was posted ahead; around a ring two segments are under way at once. Algorithms are
those of gloo over TCP, with what torch's ProcessGroupGloo makes of them: a reduce-scatter is an all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, cast

import torch
from torch import Tensor

from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.port import Port
from polyrhythm.process_group.messages.algorithms.announced import AnnouncedMatching
from polyrhythm.process_group.messages.algorithms.closed import AnnouncedRing, Course, RingForm, RingInput, in_closed_form, summed
from polyrhythm.process_group.messages.algorithms.costs import Cost, Costs, depth, doublings
from polyrhythm.process_group.messages.party import Party
from polyrhythm.process_group.operations import Reduction, apply

_MOST = 1 << 20
"""The most bytes of a segment."""
_UNDER_WAY = 2
"""The segments that are under way at once around a ring."""


@dataclass(frozen=True, slots=True)
class GlooAlgorithms:
    """Those of gloo. Two threads of a group carry out its collectives."""

    at_once: ClassVar = 2
    costs: ClassVar[Costs] = {
        "all_reduce": Cost(lambda p, m: 4 * _trips(p, m), lambda p, m: 2 * (p - 1) * m),
        "reduce_scatter": Cost(lambda p, m: 4 * _trips(p, m), lambda p, m: 2 * (p - 1) * m),
        "all_gather": Cost(lambda p, m: 2 * (p - 1), lambda p, m: p * (p - 1) * m),
        "broadcast": Cost(lambda p, m: 1 + depth(p), lambda p, m: (p - 1) * m),
        "reduce": Cost(lambda p, m: 2 * _trips(p, m) + 2, lambda p, m: (p - 1) * m * (p + 1) / p),
        "gather": Cost(lambda p, m: 2, lambda p, m: (p - 1) * m),
        "scatter": Cost(lambda p, m: 2, lambda p, m: (p - 1) * m / p),
        "all_to_all": Cost(lambda p, m: 2, lambda p, m: (p - 1) * m),
        "barrier": Cost(lambda p, m: 2 * doublings(p), lambda p, m: 0),
        "send": Cost(lambda p, m: 2, lambda p, m: m),
    }

    def peers(self, port: Port, topic: str, members: Sequence[str], within: float | None) -> AnnouncedMatching:
        return AnnouncedMatching(port, topic, members, within)

    async def all_reduce(self, party: Party, flat: Tensor, how: Reduction) -> Tensor:
        if party.size == 1:
            return how.finish(flat.clone(), 1)
        pieces = _segments(flat, party.size)
        if (found := await in_closed_form(party, pieces, _all_reduced(how))) is not None:
            return cast(Tensor, found)
        await _reduced(party, pieces, how)
        each, total = len(pieces) // party.size, len(pieces)
        first, after = party.rank * each, (party.rank + 1) * each

        def leaving(step: int) -> Tensor:
            return pieces[(first + step) % total]

        def arrived(step: int, piece: Tensor) -> None:
            pieces[(after + step) % total] = piece

        await _around(party, "g", total - each, leaving, arrived, lambda step: pieces[(after + step) % total].numel() > 0)
        return how.finish(torch.cat(pieces), party.size)

    async def reduce_scatter(self, party: Party, parts: Sequence[Tensor], how: Reduction) -> Tensor:
        total = await self.all_reduce(party, torch.cat(list(parts)), how)
        return torch.split(total, [part.numel() for part in parts])[party.rank].clone()

    async def all_gather(self, party: Party, own: Tensor) -> list[Tensor]:
        size, rank = party.size, party.rank
        half = own.numel() // 2
        if size > 1 and (closed := await in_closed_form(party, [own[:half], own[half:]], _GATHERED)) is not None:
            return cast(list[Tensor], closed)
        found = {(rank, 0): own[:half].clone(), (rank, 1): own[half:].clone()}

        def leaving(step: int) -> Tensor:
            return found[(rank - step // 2) % size, step % 2]

        def arrived(step: int, piece: Tensor) -> None:
            found[(rank - step // 2 - 1) % size, step % 2] = piece

        await _around(party, "g", 2 * (size - 1), leaving, arrived, None, 1)
        return [torch.cat([found[each, 0], found[each, 1]]) for each in range(size)]

    async def broadcast(self, party: Party, tensors: Sequence[Tensor], root: int) -> Sequence[Tensor]:
        place, size = (party.rank - root) % party.size, party.size
        held: Sequence[Tensor] = [tensor.clone() for tensor in tensors]
        if place:
            held = await _received(party, ((place ^ 1 << place.bit_length() - 1) + root) % size, "b")
        sends = [
            await _offer(party, (place + (1 << bit) + root) % size, "b", *held)
            for bit in range(place.bit_length(), doublings(size))
            if place + (1 << bit) < size
        ]
        for send in sends:
            await send.left(party)
        return held

    async def reduce(self, party: Party, flat: Tensor, how: Reduction, root: int) -> Tensor | None:
        if party.size == 1:
            return how.finish(flat.clone(), 1)
        pieces = _segments(flat, party.size)
        each = len(pieces) // party.size
        await _reduced(party, pieces, how)
        chunks = [torch.cat(pieces[rank * each : (rank + 1) * each]) for rank in range(party.size)]
        everyones = await self.gather(party, chunks[party.rank], root)
        return None if everyones is None else how.finish(torch.cat(everyones), party.size)

    async def gather(self, party: Party, own: Tensor, root: int) -> list[Tensor] | None:
        if party.rank != root:
            await (await _offer(party, root, "g", own.clone())).left(party)
            return None
        others = [rank for rank in range(party.size) if rank != root]
        for source in others:
            await party.announce(source, "g")
        found = {source: (await party.receive(source, "g"))[0] for source in others}
        return [found.get(rank, own) for rank in range(party.size)]

    async def scatter(self, party: Party, parts: Sequence[Tensor], root: int) -> Tensor:
        if party.rank != root:
            return (await _received(party, root, "s"))[0]
        for send in [await _offer(party, to, "s", parts[to].clone()) for to in range(party.size) if to != root]:
            await send.left(party)
        return parts[root].clone()

    async def all_to_all(self, party: Party, parts: Sequence[Tensor]) -> list[Tensor]:
        size, rank, sends = party.size, party.rank, []
        for distance in range(1, size):
            sends.append(await _offer(party, (rank + distance) % size, "t", parts[(rank + distance) % size].clone()))
            await party.announce((rank - distance) % size, "t")
        found = [parts[rank].clone() if source == rank else (await party.receive(source, "t"))[0] for source in range(size)]
        for send in sends:
            await send.left(party)
        return found

    async def barrier(self, party: Party) -> None:
        for bit in range(doublings(party.size)):
            source, to = (party.rank - (1 << bit)) % party.size, (party.rank + (1 << bit)) % party.size
            await party.announce(source, f"w{bit}")
            send = await _offer(party, to, f"w{bit}")
            await party.receive(source, f"w{bit}")
            await send.left(party)


@dataclass(slots=True)
class _Offer:
    """A message that leaves when its receiver has announced that it waits."""

    done: Latch = field(default_factory=Latch)
    error: Exception | None = None

    async def left(self, party: Party) -> None:
        """Return when it has. Raises its error."""
        await party.port.wait(self.done)
        if self.error is not None:
            raise self.error


async def _offer(party: Party, to: int, part: str, *tensors: Tensor) -> _Offer:
    offer = _Offer()

    async def leave() -> None:
        try:
            await party.announced(to, part)
            await party.send(to, part, *tensors)
        except Exception as error:  # raised where it is waited for
            offer.error = error
        offer.done.open()

    await party.port.spawn("offer", leave())
    return offer


async def _received(party: Party, source: int, part: str) -> tuple[Tensor, ...]:
    await party.announce(source, part)
    return await party.receive(source, part)


async def _reduced(party: Party, pieces: list[Tensor], how: Reduction) -> None:
    """Have this member's chunk of `pieces` hold the reduction, which it ends: chunk k begins with member k - 1, and goes down the ring."""
    each, total = len(pieces) // party.size, len(pieces)
    first, after = (party.rank + 1) * each, (party.rank + 2) * each

    def arrived(step: int, piece: Tensor) -> None:
        place = (after + step) % total
        pieces[place] = apply(how.operation, pieces[place], piece)

    def expects(step: int) -> bool:
        return pieces[(after + step) % total].numel() > 0

    await _around(party, "r", total - each, lambda step: pieces[(first + step) % total], arrived, expects)


async def _around(
    party: Party,
    name: str,
    steps: int,
    leaving: Callable[[int], Tensor],
    arrived: Callable[[int, Tensor], None],
    expects: Callable[[int], bool] | None,
    direction: int = -1,
) -> None:
    """Pass pieces around the ring. Without `expects` all are passed, else none that is empty."""
    to, source = (party.rank + direction) % party.size, (party.rank - direction) % party.size
    sends: dict[int, _Offer] = {}
    for step in range(steps + _UNDER_WAY):
        if (before := step - _UNDER_WAY) >= 0:
            if expects is None or expects(before):
                arrived(before, (await party.receive(source, f"{name}{before}"))[0])
            if before in sends:
                await sends.pop(before).left(party)
        if step < steps:
            if expects is None or expects(step):
                await party.announce(source, f"{name}{step}")
            piece = leaving(step)
            if expects is None or piece.numel():
                sends[step] = await _offer(party, to, f"{name}{step}", piece)


def _courses(values: Sequence[RingInput]) -> list[Course]:
    """Of a sum: each chunk goes down the ring until it is whole, and once more around."""
    size, pieces = len(values), values[0].parts
    each = len(pieces) // size

    def course(kind: str, first: int) -> Course:
        names = [f"{kind}{step}" for step in range(len(pieces) - each)]
        passed = [[pieces[((rank + first) * each + step) % len(pieces)] for rank in range(size)] for step in range(len(names))]
        return [
            (name, [value.passes(name, piece) if piece.numel() else 0 for value, piece in zip(values, passed[step], strict=True)])
            for step, name in enumerate(names)
        ]

    return [course("r", 1), course("g", 0)]


def _all_reduced(how: Reduction) -> RingForm:
    def found(values: Sequence[RingInput]) -> list[Tensor]:
        size = len(values)
        each = len(values[0].parts) // size
        order = [[(piece // each - 1 - step) % size for step in range(size)] for piece in range(size * each)]
        whole = torch.cat([summed([values[rank].parts[piece] for rank in ranks], how) for piece, ranks in enumerate(order)])
        return [how.finish(whole, size)] * size

    return RingForm(found, _courses, partial(_announced, -1), -1)


def _gathered(values: Sequence[RingInput]) -> list[list[Tensor]]:
    return [[torch.cat(list(value.parts)) for value in values]] * len(values)


def _gather_courses(values: Sequence[RingInput]) -> list[Course]:
    size = len(values)
    names = [f"g{step}" for step in range(2 * (size - 1))]
    return [
        [
            (name, [each.passes(name, values[(rank - step // 2) % size].parts[step % 2]) for rank, each in enumerate(values)])
            for step, name in enumerate(names)
        ]
    ]


def _announced(direction: int, begins: Sequence[float], values: Sequence[RingInput]) -> AnnouncedRing:
    return AnnouncedRing(list(begins), [value.notice for value in values], direction, _UNDER_WAY)


_GATHERED = RingForm(_gathered, _gather_courses, partial(_announced, 1), 1)


def _segments(flat: Tensor, ranks: int) -> list[Tensor]:
    """A copy of `flat` in equal segments, as many for each rank, of which the last may be empty."""
    most = max(1, _MOST // flat.element_size())
    count = -(-max(-(-flat.numel() // most), _UNDER_WAY * ranks) // ranks) * ranks
    each = -(-flat.numel() // count)
    return [flat[number * each : (number + 1) * each].clone() for number in range(count)]


def _trips(ranks: int, nbytes: int) -> int:
    """The round trips of each half of a ring: `_UNDER_WAY` segments are under way in each."""
    each = -(-max(-(-nbytes // _MOST), _UNDER_WAY * ranks) // ranks)
    return -(-each * (ranks - 1) // _UNDER_WAY)
