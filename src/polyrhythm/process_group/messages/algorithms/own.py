"""The collectives of the backend "polyrhythm": those that send least, and one exchange of all with all where little is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from polyrhythm.core.kernel.port import Port
from polyrhythm.process_group.messages.algorithms.closed import Course, FreeRing, RingForm, RingInput, in_closed_form, summed
from polyrhythm.process_group.messages.algorithms.costs import Cost, Costs, depth, doublings
from polyrhythm.process_group.messages.matching import Matching
from polyrhythm.process_group.messages.party import Party
from polyrhythm.process_group.operations import Reduction, apply

_FEW_BYTES = 4096
"""Up to so many bytes a sum needs one exchange of all with all: a ring would take 2 (P - 1) latencies."""


@dataclass(frozen=True, slots=True)
class OwnAlgorithms:
    """Sums go around a ring (Patarasuk and Yuan, 2009), broadcasts down a binomial tree; a barrier is one of dissemination (Hensgen, Finkel
    and Manber, 1988). Between hosts our backend communicates so in real processes too."""

    at_once: ClassVar = 1
    costs: ClassVar[Costs] = {
        "all_reduce": Cost(
            lambda p, m: 1 if exchanges_all(p, m) else 2 * (p - 1), lambda p, m: (p if exchanges_all(p, m) else 2) * (p - 1) * m
        ),
        "reduce_scatter": Cost(lambda p, m: p - 1, lambda p, m: (p - 1) * m),
        "all_gather": Cost(lambda p, m: p - 1, lambda p, m: p * (p - 1) * m),
        "broadcast": Cost(lambda p, m: depth(p), lambda p, m: (p - 1) * m),
        "reduce": Cost(lambda p, m: 1 if m <= _FEW_BYTES else p, lambda p, m: (p - 1) * m * (1 if m <= _FEW_BYTES else 1 + 1 / p)),
        "gather": Cost(lambda p, m: 1, lambda p, m: (p - 1) * m),
        "scatter": Cost(lambda p, m: 1, lambda p, m: (p - 1) * m / p),
        "all_to_all": Cost(lambda p, m: 1, lambda p, m: (p - 1) * m),
        "barrier": Cost(lambda p, m: doublings(p), lambda p, m: 0),
        "send": Cost(lambda p, m: 1, lambda p, m: m),
    }

    def peers(self, port: Port, topic: str, members: Sequence[str], within: float | None) -> Matching:
        return Matching(port, topic, within)

    async def all_reduce(self, party: Party, flat: Tensor, how: Reduction) -> Tensor:
        """The reduction of everyone's `flat` (numel,)."""
        if exchanges_all(party.size, flat.numel() * flat.element_size()):
            everyones = await _exchange_all(party, flat, "all")
            return how.finish(_fold(everyones, how), party.size)
        return await self.around(party, flat, how)

    async def around(self, party: Party, flat: Tensor, how: Reduction) -> Tensor:
        """The reduction of everyone's `flat`, around a ring."""
        parts = list(torch.tensor_split(flat, party.size))
        if (found := await in_closed_form(party, parts, _all_reduced(how))) is not None:
            return cast(Tensor, found)
        parts[party.rank] = await self.reduce_scatter(party, parts, how)
        return torch.cat(await self.all_gather(party, parts[party.rank]))

    async def reduce_scatter(self, party: Party, parts: Sequence[Tensor], how: Reduction) -> Tensor:
        """Part `rank` of the reduction of everyone's `parts`. Part k is added up from member k + 1 on, around the ring to member k."""
        size, rank = party.size, party.rank
        if size == 1:
            return how.finish(parts[0].clone(), 1)
        if (found := await in_closed_form(party, parts, _scattered(how))) is not None:
            return cast(Tensor, found)
        passed = parts[(rank - 1) % size].clone()
        for step in range(size - 1):
            await party.send((rank + 1) % size, f"r{step}", passed)
            [received] = await party.receive((rank - 1) % size, f"r{step}")
            passed = apply(how.operation, received, parts[(rank - 2 - step) % size])
        return how.finish(passed, size)

    async def all_gather(self, party: Party, own: Tensor) -> list[Tensor]:
        """Everyone's `own`, by rank, around a ring; they may differ in size."""
        if (closed := await in_closed_form(party, [own], _GATHERED)) is not None:
            return cast(list[Tensor], closed)
        size, rank = party.size, party.rank
        found = {rank: own.clone()}
        for step in range(size - 1):
            source = (rank - step) % size
            await party.send((rank + 1) % size, f"g{step}", found[source])
            [found[(source - 1) % size]] = await party.receive((rank - 1) % size, f"g{step}")
        return [found[each] for each in range(size)]

    async def broadcast(self, party: Party, tensors: Sequence[Tensor], root: int) -> Sequence[Tensor]:
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

    async def reduce(self, party: Party, flat: Tensor, how: Reduction, root: int) -> Tensor | None:
        """The reduction of everyone's `flat` at the root; None at the others."""
        if flat.numel() * flat.element_size() <= _FEW_BYTES:
            everyones = await self.gather(party, flat, root)
            return None if everyones is None else how.finish(_fold(everyones, how), party.size)
        part = await self.reduce_scatter(party, torch.tensor_split(flat, party.size), how)
        everyones = await self.gather(party, part, root)
        return None if everyones is None else torch.cat(everyones)

    async def gather(self, party: Party, own: Tensor, root: int) -> list[Tensor] | None:
        """Everyone's `own` at the root; None at the others."""
        if party.rank != root:
            await party.send(root, "g", own.clone())
            return None
        return [own.clone() if source == root else (await party.receive(source, "g"))[0] for source in range(party.size)]

    async def scatter(self, party: Party, parts: Sequence[Tensor], root: int) -> Tensor:
        """The part of this rank of the root's `parts`."""
        if party.rank != root:
            return (await party.receive(root, "s"))[0]
        for to in range(party.size):
            if to != root:
                await party.send(to, "s", parts[to].clone())
        return parts[root].clone()

    async def all_to_all(self, party: Party, parts: Sequence[Tensor]) -> list[Tensor]:
        """What each has for this rank: part k goes to rank k. The next ranks come first, so that nobody is sent to by all at once."""
        size, rank = party.size, party.rank
        for distance in range(1, size):
            to = (rank + distance) % size
            await party.send(to, "t", parts[to].clone())
        return [parts[rank].clone() if source == rank else (await party.receive(source, "t"))[0] for source in range(size)]

    async def barrier(self, party: Party) -> None:
        """Return when all have come."""
        reach = 1
        while reach < party.size:
            await party.send((party.rank + reach) % party.size, f"w{reach}")
            await party.receive((party.rank - reach) % party.size, f"w{reach}")
            reach <<= 1


def _sum_course(values: Sequence[RingInput]) -> Course:
    size = len(values)
    names = [f"r{step}" for step in range(size - 1)]
    return [
        (name, [each.passes(name, each.parts[(rank - 1 - step) % size]) for rank, each in enumerate(values)])
        for step, name in enumerate(names)
    ]


def _gather_course(values: Sequence[RingInput], parts: Sequence[Tensor]) -> Course:
    size = len(values)
    names = [f"g{step}" for step in range(size - 1)]
    return [(name, [each.passes(name, parts[(rank - step) % size]) for rank, each in enumerate(values)]) for step, name in enumerate(names)]


def _sums(values: Sequence[RingInput], how: Reduction) -> list[Tensor]:
    """Part k is added up from member k + 1 on."""
    size = len(values)
    order = [[(part + 1 + step) % size for step in range(size)] for part in range(size)]
    return [how.finish(summed([values[rank].parts[part] for rank in order[part]], how), size) for part in range(size)]


def _free(begins: Sequence[float], values: Sequence[RingInput]) -> FreeRing:
    return FreeRing(list(begins))


def _scattered(how: Reduction) -> RingForm:
    return RingForm(lambda values: _sums(values, how), lambda values: [_sum_course(values)], _free)


def _all_reduced(how: Reduction) -> RingForm:
    def courses(values: Sequence[RingInput]) -> list[Course]:
        return [_sum_course(values), _gather_course(values, values[0].parts)]

    return RingForm(lambda values: [torch.cat(_sums(values, how))] * len(values), courses, _free)


def _gathered(values: Sequence[RingInput]) -> list[list[Tensor]]:
    return [[each.parts[0] for each in values]] * len(values)


_GATHERED = RingForm(_gathered, lambda values: [_gather_course(values, [each.parts[0] for each in values])], _free)


def exchanges_all(ranks: int, nbytes: int) -> bool:
    """True where all send the whole to all."""
    return nbytes <= _FEW_BYTES or ranks == 2


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
