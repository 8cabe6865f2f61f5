"""The adaptive sum of vectors: by pairs, with what two have in common counted once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.tensors import Layout
from polyrhythm.topology.collective.algorithms.butterfly import Butterfly


@dataclass(frozen=True, slots=True)
class AdaptiveSum:
    """Recursive vector halving (Maleki et al., MLSys 2021, algorithm 1), tensor by tensor of `layout`.

    At level k a worker exchanges half of what it holds with the one at distance 2^k, and the 2^(k+1) workers that hold two vectors
    between them add up their dot products. 2 (1 - 1 / P) M and 24 bytes a tensor, level and partner: about what a ring sends. The workers
    beyond the last power of two have a partner combine their vector with its own first, and are sent the result.
    """

    layout: Layout

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """P times the adaptive sum, so that a mean over workers gives the adaptive sum."""
        core = 1 << (group.size.bit_length() - 1)
        rank, mine = group.rank, value.reshape(-1)
        assert mine.numel() == self.layout.numel, "one number for each of the layout"
        if rank >= core:
            await port.send(group.members[rank - core], Message(f"{topic}.in", tensors=(mine,)))
            return await _hear(port, f"{topic}.out", group.members[rank - core])
        if rank + core < group.size:
            theirs = await _hear(port, f"{topic}.in", group.members[rank + core])
            mine = combine(mine, theirs, self.layout, 0, dot_products(mine, theirs, self.layout, 0))
        total = await self._halve_and_double(port, group, mine, core, topic) * group.size
        if rank + core < group.size:
            await port.send(group.members[rank + core], Message(f"{topic}.out", tensors=(total,)))
        return total

    async def _halve_and_double(self, port: Port, group: Group, mine: Tensor, core: int, topic: str) -> Tensor:
        rank, low, high, halves = group.rank, 0, mine.numel(), list[tuple[int, int]]()
        for level in range(core.bit_length() - 1):
            distance, middle = 1 << level, (low + high) // 2
            partner, upper = group.members[rank ^ distance], bool(rank & distance)
            halves.append((low, high))
            left, right = mine[: middle - low], mine[middle - low :]
            await port.send(partner, Message(f"{topic}.h{level}", tensors=((left if upper else right).clone(),)))
            theirs = await _hear(port, f"{topic}.h{level}", partner)
            low, high = (middle, high) if upper else (low, middle)
            first, second = (theirs, right) if upper else (left, theirs)
            dots = await Butterfly().reduce(
                port, _block(group, 2 * distance), dot_products(first, second, self.layout, low), f"{topic}.p{level}"
            )
            mine = combine(first, second, self.layout, low, dots)
        for level in reversed(range(len(halves))):
            partner = group.members[rank ^ (1 << level)]
            await port.send(partner, Message(f"{topic}.d{level}", tensors=(mine,)))
            theirs = await _hear(port, f"{topic}.d{level}", partner)
            mine = torch.cat((theirs, mine) if rank & (1 << level) else (mine, theirs))
        return mine


def dot_products(a: Tensor, b: Tensor, layout: Layout, start: int) -> Tensor:
    """a·b, a·a and b·b of each tensor (tensors, 3), as far as it lies in the ranges `a` and `b` of the vector from `start` on."""
    found = torch.zeros(len(layout.names), 3, dtype=torch.float64)
    for tensor, part in _parts(layout, start, a.numel()):
        x, y = a[part].double(), b[part].double()
        found[tensor] = torch.stack((x @ y, x @ x, y @ y))
    return found


def combine(a: Tensor, b: Tensor, layout: Layout, start: int, dots: Tensor) -> Tensor:
    """(1 - a·b / 2 |a|²) a + (1 - a·b / 2 |b|²) b, tensor by tensor; a tensor of zeros leaves the other as it is."""
    in_common, norms = dots[:, :1], dots[:, 1:]
    counts = (1 - torch.where(norms > 0, in_common / (2 * norms), 0.0)).tolist()
    combined = torch.empty_like(a)
    for tensor, part in _parts(layout, start, a.numel()):
        mine, other = counts[tensor]
        combined[part] = mine * a[part] + other * b[part]
    return combined


def _parts(layout: Layout, start: int, numel: int) -> list[tuple[int, slice]]:
    """The tensors that lie in `numel` elements of the vector from `start` on, by number, and their ranges there."""
    parts, begin = [], -start
    for tensor, end in enumerate(_ends(layout)):
        low, high = max(0, begin), min(numel, end - start)
        if low < high:
            parts.append((tensor, slice(low, high)))
        begin = end - start
    return parts


def _ends(layout: Layout) -> list[int]:
    end, ends = 0, []
    for name, shape in zip(layout.names, layout.shapes, strict=True):
        end += Layout((name,), (shape,)).numel
        ends.append(end)
    return ends


def _block(group: Group, size: int) -> Group:
    """The `size` consecutive workers, of as many blocks of them, among which this one is."""
    first = group.rank - group.rank % size
    return Group(f"{group.name}/{first}", group.members[first : first + size], group.rank - first, group.seed)


async def _hear(port: Port, topic: str, sender: str) -> Tensor:
    delivery = await port.receive(topic, sender)
    assert delivery is not None
    return delivery.message.tensors[0]
