"""The bitwise AND of all workers' bits, in two ways."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import torch
from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port

Conjunction = Callable[[Port, Group, Tensor, str], Coroutine[Effect[Any], Any, Tensor]]
"""Makes of the bits (uint8) of all workers their AND, at every worker."""


async def at_root(port: Port, group: Group, bits: Tensor, topic: str) -> Tensor:
    """All send theirs to worker 0, which sends each the AND: 2 (P - 1) messages over its line."""
    if not group.is_first:
        await port.send(group.first, Message(f"{topic}.{group.rank}", tensors=(bits,)))
        return await _hear(port, f"{topic}.and", group.first)
    for rank in range(1, group.size):
        bits = torch.bitwise_and(bits, await _hear(port, f"{topic}.{rank}", group.members[rank]))
    for name in group.members[1:]:
        await port.send(name, Message(f"{topic}.and", tensors=(bits,)))
    return bits


async def by_doubling(port: Port, group: Group, bits: Tensor, topic: str) -> Tensor:
    """Partners at distance 1, 2, 4, … exchange theirs: ⌈log2 P⌉ messages of every worker, and no root.

    Workers beyond the last power of two send theirs to a partner first, and hear from it at the end.
    """
    rank, core = group.rank, 1 << (group.size.bit_length() - 1)
    if rank >= core:
        await port.send(group.members[rank - core], Message(f"{topic}.in", tensors=(bits,)))
        return await _hear(port, f"{topic}.out", group.members[rank - core])
    beyond = group.members[rank + core] if rank + core < group.size else ""
    if beyond:
        bits = torch.bitwise_and(bits, await _hear(port, f"{topic}.in", beyond))
    for level in range(core.bit_length() - 1):
        partner = group.members[rank ^ (1 << level)]
        await port.send(partner, Message(f"{topic}.{level}", tensors=(bits,)))
        bits = torch.bitwise_and(bits, await _hear(port, f"{topic}.{level}", partner))
    if beyond:
        await port.send(beyond, Message(f"{topic}.out", tensors=(bits,)))
    return bits


async def _hear(port: Port, topic: str, sender: str) -> Tensor:
    delivery = await port.receive(topic, sender)
    assert delivery is not None
    return delivery.message.tensors[0]
