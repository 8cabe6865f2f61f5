"""The collectives of the backend "nccl": rings, a double binary tree for small sums, chains for broadcasts.

Receives are posted ahead, so that nothing waits for a notice. NCCL cannot be run here: this follows its documentation, and is not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.together import together
from polyrhythm.core.shared_memory import Operation
from polyrhythm.process_group.messages.algorithms.costs import Cost, Costs, doublings
from polyrhythm.process_group.messages.algorithms.own import OwnAlgorithms
from polyrhythm.process_group.messages.matching import Matching
from polyrhythm.process_group.messages.party import Party
from polyrhythm.process_group.operations import Reduction, apply

_OWN = OwnAlgorithms()
_SLICE = 1 << 19
"""The bytes that go down a chain at once: an eighth of NCCL's buffer of 4 MiB."""
_SECONDS, _BANDWIDTH = 14e-6, 12.5e9
"""The latency and the bytes per second of a network with which NCCL compares its ring and its tree, whatever the network is."""


def _by_tree(ranks: int, nbytes: int) -> bool:
    """True where the tree is the faster, by NCCL's reckoning."""
    ring = 2 * (ranks - 1) * (_SECONDS + nbytes / ranks / _BANDWIDTH)
    return 2 * (doublings(ranks) * _SECONDS + nbytes / _BANDWIDTH) < ring


@dataclass(frozen=True, slots=True)
class NcclAlgorithms:
    """Those of NCCL, one after another as in a stream."""

    at_once: ClassVar = 1
    costs: ClassVar[Costs] = {
        **{kind: OwnAlgorithms.costs[kind] for kind in ("reduce_scatter", "all_gather", "gather", "scatter", "all_to_all", "send")},
        "all_reduce": Cost(lambda p, m: 2 * (_height(p) if _by_tree(p, m) else p - 1), lambda p, m: 2 * (p - 1) * m),
        "broadcast": Cost(lambda p, m: p - 1, lambda p, m: (p - 1) * m),
        "reduce": Cost(lambda p, m: p - 1, lambda p, m: (p - 1) * m),
        "barrier": Cost(lambda p, m: 2 * (_height(p) if _by_tree(p, 4) else p - 1), lambda p, m: 8 * (p - 1)),
    }

    def peers(self, port: Port, topic: str, members: Sequence[str], within: float | None) -> Matching:
        return _OWN.peers(port, topic, members, within)

    async def all_reduce(self, party: Party, flat: Tensor, how: Reduction) -> Tensor:
        if _by_tree(party.size, flat.numel() * flat.element_size()):
            halves = torch.tensor_split(flat, 2)
            return how.finish(
                torch.cat(await together(party.port, [partial(_climb, party, tree, halves[tree], how) for tree in (0, 1)])), party.size
            )
        return await _OWN.around(party, flat, how)

    async def reduce_scatter(self, party: Party, parts: Sequence[Tensor], how: Reduction) -> Tensor:
        return await _OWN.reduce_scatter(party, parts, how)

    async def all_gather(self, party: Party, own: Tensor) -> list[Tensor]:
        return await _OWN.all_gather(party, own)

    async def broadcast(self, party: Party, tensors: Sequence[Tensor], root: int) -> Sequence[Tensor]:
        place, size = (party.rank - root) % party.size, party.size
        held = []
        for number, tensor in enumerate(tensors):
            pieces = _slices(tensor)
            for cut in range(len(pieces)):
                if place:
                    [pieces[cut]] = await party.receive((party.rank - 1) % size, f"b{number}.{cut}")
                if place + 1 < size:
                    await party.send((party.rank + 1) % size, f"b{number}.{cut}", pieces[cut])
            held.append(torch.cat(pieces))
        return held

    async def reduce(self, party: Party, flat: Tensor, how: Reduction, root: int) -> Tensor | None:
        place, pieces = (root - party.rank) % party.size, _slices(flat)
        for cut in range(len(pieces)):
            if place + 1 < party.size:
                [received] = await party.receive((party.rank - 1) % party.size, f"d{cut}")
                pieces[cut] = apply(how.operation, received, pieces[cut])
            if place:
                await party.send((party.rank + 1) % party.size, f"d{cut}", pieces[cut])
        return None if place else how.finish(torch.cat(pieces), party.size)

    async def gather(self, party: Party, own: Tensor, root: int) -> list[Tensor] | None:
        return await _OWN.gather(party, own, root)

    async def scatter(self, party: Party, parts: Sequence[Tensor], root: int) -> Tensor:
        return await _OWN.scatter(party, parts, root)

    async def all_to_all(self, party: Party, parts: Sequence[Tensor]) -> list[Tensor]:
        return await _OWN.all_to_all(party, parts)

    async def barrier(self, party: Party) -> None:
        await self.all_reduce(party, torch.ones(1), Reduction(Operation.SUM, False))


async def _climb(party: Party, tree: int, own: Tensor, how: Reduction) -> Tensor:
    """The reduction of everyone's `own`, up one of two trees and down again: who is inside of the one is a leaf of the other."""
    size = party.size
    at = [rank if tree == 0 else size - 1 - rank if size % 2 == 0 else (rank + 1) % size for rank in range(size)]
    place = at.index(party.rank)
    children = [at[each] for each in range(1, size) if _parent(each, size) == place]
    total = own.clone()
    for child in children:
        [received] = await party.receive(child, f"{tree}u")
        total = apply(how.operation, total, received)
    if place:
        above = at[_parent(place, size)]
        await party.send(above, f"{tree}u", total)
        [total] = await party.receive(above, f"{tree}d")
    for child in children:
        await party.send(child, f"{tree}d", total)
    return total


def _parent(place: int, ranks: int) -> int:
    """In a binary tree of which place 0 is the root, with one child."""
    low = place & -place
    above = place ^ low | low << 1
    return above if above < ranks else place ^ low


def _height(ranks: int) -> int:
    """The most messages, one after another, from a leaf to the root."""
    heights = [0] * ranks
    for low in sorted(range(1, ranks), key=lambda place: -(place & -place)):
        heights[low] = heights[_parent(low, ranks)] + 1
    return max(heights)


def _slices(flat: Tensor) -> list[Tensor]:
    return list(torch.split(flat.clone(), max(1, _SLICE // flat.element_size())))
