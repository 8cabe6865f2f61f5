"""The collectives of a group, seen as they are issued, and made in another order of the ranks where that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.shared_memory import Operation
from polyrhythm.core.torch_private.one_process import backward_pass
from polyrhythm.process_group.messages.algorithms import OWN, Algorithms
from polyrhythm.process_group.messages.collectives import MessageCollectives
from polyrhythm.process_group.messages.party import Doing, Party
from polyrhythm.process_group.operations import Reduction
from polyrhythm.process_group.python_group import Collectives
from polyrhythm.torch_programs.checking.seen import Moved, RankSeen, digest

SUM = Reduction(Operation.SUM, False)
_SHARDING = "_fully_shard"


@dataclass(frozen=True, slots=True)
class ReductionOrder:
    """The order in which reductions add up what the ranks give: by rank, or, with a seed, another one."""

    seed: int | None = None

    def of(self, party: Party) -> tuple[Party, Sequence[int]]:
        """The same party in that order, and the rank that each place is of."""
        places = list(range(party.size))
        if self.seed is None:
            return party, places
        Random(f"{self.seed} {party.members}").shuffle(places)
        members = tuple(party.members[each] for each in places)
        call = replace(party.call, members=members)
        return replace(party, members=members, rank=places.index(party.rank), call=call), places


def seen_collectives(seen: RankSeen, order: ReductionOrder) -> Callable[[Party, Algorithms], Collectives[Doing]]:
    """What makes the collectives of a rank, as the rank issues them."""
    return lambda party, _: SeenCollectives(party, seen, order)


class SeenCollectives:
    """Those of `MessageCollectives`, with reductions in the given order; what is moved is noted."""

    def __init__(self, party: Party, seen: RankSeen, order: ReductionOrder) -> None:
        self._plain = MessageCollectives(party, OWN)
        self._places = order.of(party)
        self._reordered = MessageCollectives(self._places[0], OWN)
        self._moved = Moved(
            party.call.kind, party.call.axis, "", tuple(party.call.ranks), None, (), party.call.where, _sharding(), backward_pass() >= 0
        )
        seen.moved.append(self._moved)

    async def _done(self, doing: Doing, given: Sequence[Tensor], got: Sequence[Tensor], how: Reduction | None = None) -> None:
        moved = self._moved
        moved.how, moved.shapes = str(how or ""), tuple(tuple(each.shape) for each in given)
        moved.dtype = given[0].dtype if given else None
        moved.given = hash(tuple(map(digest, given)))
        await doing
        moved.got = hash(tuple(map(digest, got)))

    async def reduce_all(self, tensors: Sequence[Tensor], how: Reduction) -> None:
        await self._done(self._reordered.reduce_all(tensors, how), tensors, tensors, how)

    async def sum_sparse(self, tensors: Sequence[Tensor]) -> None:
        await self._done(self._plain.sum_sparse(tensors), tensors, tensors, SUM)

    async def reduce_to(self, tensors: Sequence[Tensor], how: Reduction, root: int) -> None:
        await self._done(self._plain.reduce_to(tensors, how, root), tensors, tensors, how)

    async def broadcast(self, tensors: Sequence[Tensor], root: int) -> None:
        await self._done(self._plain.broadcast(tensors, root), tensors, tensors)

    async def gather_flat(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        await self._done(self._plain.gather_flat(pairs), [own for _, own in pairs], [output for output, _ in pairs])

    async def gather_lists(self, lists: Sequence[Sequence[Tensor]], owns: Sequence[Tensor]) -> None:
        await self._done(self._plain.gather_lists(lists, owns), owns, [each for outputs in lists for each in outputs])

    async def gather_to(self, outputs: Sequence[Tensor], own: Tensor, root: int) -> None:
        await self._done(self._plain.gather_to(outputs, own, root), [own], outputs)

    async def scatter(self, output: Tensor, pieces: Sequence[Tensor], root: int) -> None:
        await self._done(self._plain.scatter(output, pieces, root), pieces, [output])

    async def scatter_reduced(self, pairs: Sequence[tuple[Tensor, Tensor]], how: Reduction) -> None:
        size, owns, outputs = len(self._places[1]), [own for _, own in pairs], [output for output, _ in pairs]
        moved = [(output, torch.cat([own.reshape(size, -1)[each] for each in self._places[1]])) for output, own in pairs]
        await self._done(self._reordered.scatter_reduced(moved, how), owns, outputs, how)

    async def scatter_reduced_list(self, output: Tensor, owns: Sequence[Tensor], how: Reduction) -> None:
        moved = [owns[each] for each in self._places[1]]
        await self._done(self._reordered.scatter_reduced_list(output, moved, how), owns, [output], how)

    async def exchange_lists(self, outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        await self._done(self._plain.exchange_lists(outputs, owns), owns, outputs)

    async def exchange_rows(self, whole: tuple[Tensor, Tensor], outputs: Sequence[Tensor], owns: Sequence[Tensor]) -> None:
        await self._done(self._plain.exchange_rows(whole, outputs, owns), [whole[1]], [whole[0]])

    async def barrier(self) -> None:
        await self._done(self._plain.barrier(), (), ())


def _sharding() -> bool:
    """True in FSDP2's code for gradients."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code: Any = frame.f_code
        if _SHARDING in code.co_filename and ("grad" in code.co_name or "reduce" in code.co_name or "post_backward" in code.co_name):
            return True
        frame = frame.f_back
    return False
