"""The butterfly: halving and doubling, few messages and little volume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message, wire_bytes
from polyrhythm.core.kernel.port import Port


@dataclass(frozen=True, slots=True)
class Butterfly:
    """Reduce-scatter by recursive halving, all-gather by recursive doubling (Thakur, Rabenseifner, Gropp, 2005, section 4.2).

    2 log2 P a + 2 (1 - 1 / P) M / B where P is a power of two. Otherwise the workers beyond the last power of two fold their tensor
    into that of a partner first and get the sum from it at the end, and partners signal each other that they are ready before
    they halve: an early one's half would share the line with the folding, and delay all.
    """

    rounding: ClassVar = Rounding.NONE

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """The closed form; where P is no power of two, level by level, because those who fold begin later than the others."""
        levels, core, extra = _shape(workers)
        transfer = nbytes / bandwidth
        if not extra:
            return 2 * levels * latency + 2 * (1 - 1 / core) * transfer
        ends = [latency + transfer if rank < extra else 0.0 for rank in range(core)]
        for level in range(levels):
            mates, part = [rank ^ (core >> (level + 1)) for rank in range(core)], transfer / 2 ** (level + 1)
            ready = [max(ends[rank], ends[mate] + latency) for rank, mate in enumerate(mates)]
            ends = [max(ready[rank], ready[mate] + part + latency) for rank, mate in enumerate(mates)]
        for level in reversed(range(levels)):
            mates, part = [rank ^ (core >> (level + 1)) for rank in range(core)], transfer / 2 ** (level + 1)
            ends = [max(ends[rank], ends[mate] + part + latency) for rank, mate in enumerate(mates)]
        return max(*ends, *(end + transfer + latency for end in ends[:extra]))

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Bytes, headers included, and messages of all workers together."""
        levels, core, extra = _shape(workers)
        flat = value.reshape(-1)
        ready = sum(wire_bytes(Message(f"{topic}.r{level}")) for level in range(levels)) * core if extra else 0
        halves = sum(
            wire_bytes(Message(f"{topic}.{leg}{level}", tensors=(flat[part],)))
            for rank in range(core)
            for level, part in enumerate(_sent(rank, levels, flat.numel()))
            for leg in "hd"
        )
        folding = wire_bytes(Message(f"{topic}.in", tensors=(flat,))) + wire_bytes(Message(f"{topic}.out", tensors=(flat,)))
        return ready + halves + extra * folding, (3 if extra else 2) * core * levels + 2 * extra

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """Sums are nested, and so have no first, but for two workers."""
        return 0 if workers <= 2 else None

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """Every element is summed at one worker and copied to the others."""
        rank, (levels, core, extra) = group.rank, _shape(group.size)
        flat = value.reshape(-1)
        if rank >= core:
            await port.send(group.members[rank - core], Message(f"{topic}.in", tensors=(flat,)))
            return (await _hear(port, f"{topic}.out", group.members[rank - core])).view(value.shape)
        if rank < extra:
            flat = flat + await _hear(port, f"{topic}.in", group.members[rank + core])
        total = await _halve_and_double(port, group, flat.clone(), levels, topic, gated=bool(extra))
        if rank < extra:
            await port.send(group.members[rank + core], Message(f"{topic}.out", tensors=(total,)))
        return total.view(value.shape)


async def _halve_and_double(port: Port, group: Group, total: Tensor, levels: int, topic: str, *, gated: bool) -> Tensor:
    """`total` is this call's own memory; what is sent of it is copied, because it is written again."""
    rank = group.rank
    kept, sent = _kept(rank, levels, total.numel()), _sent(rank, levels, total.numel())
    for level in range(levels):
        partner = group.members[rank ^ (1 << (levels - 1 - level))]
        if gated:
            await port.send(partner, Message(f"{topic}.r{level}"))
            await port.receive(f"{topic}.r{level}", partner)
        await port.send(partner, Message(f"{topic}.h{level}", tensors=(total[sent[level]].clone(),)))
        total[kept[level]] += await _hear(port, f"{topic}.h{level}", partner)
    for level in reversed(range(levels)):
        partner = group.members[rank ^ (1 << (levels - 1 - level))]
        await port.send(partner, Message(f"{topic}.d{level}", tensors=(total[kept[level]].clone(),)))
        total[sent[level]] = await _hear(port, f"{topic}.d{level}", partner)
    return total


async def _hear(port: Port, topic: str, sender: str) -> Tensor:
    delivery = await port.receive(topic, sender)
    assert delivery is not None
    return delivery.message.tensors[0]


def _shape(workers: int) -> tuple[int, int, int]:
    """Levels, the largest power of two that fits, and how many workers are beyond it."""
    levels = workers.bit_length() - 1
    return levels, 1 << levels, workers - (1 << levels)


def _kept(rank: int, levels: int, numel: int) -> list[slice]:
    """The range that `rank` still sums after each level."""
    low, high, ranges = 0, numel, []
    for level in range(levels):
        middle = (low + high) // 2
        low, high = (middle, high) if rank & (1 << (levels - 1 - level)) else (low, middle)
        ranges.append(slice(low, high))
    return ranges


def _sent(rank: int, levels: int, numel: int) -> list[slice]:
    """The range that `rank` gives away at each level: what its partner keeps."""
    return [_kept(rank ^ (1 << (levels - 1 - level)), levels, numel)[level] for level in range(levels)]
