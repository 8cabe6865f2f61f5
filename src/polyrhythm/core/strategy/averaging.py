"""The mean of tensors over the workers, some of which may be lost on the way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port

TOPIC = "buffers"
"""The first worker subscribes to losses under this topic, where a run continues without lost workers."""


async def average(port: Port, group: Group, values: Sequence[Tensor]) -> Sequence[Tensor]:
    """The mean of all workers' `values`, with the same bits at every worker; values that are equal everywhere stay as they are.

    All send theirs to the first, which sends the mean to all: 2 (P - 1) messages. A lost worker counts if its message arrived before the
    notice of its loss.
    """
    if not group.is_first:
        await port.send(group.first, Message(TOPIC, tensors=tuple(values)))
        delivery = await port.receive(f"{TOPIC}.mean", group.first)
        assert delivery is not None
        return delivery.message.tensors
    received = {port.name: tuple(values)}
    missing = set(group.members[1:])
    while missing:
        delivery = await port.receive(TOPIC)
        assert delivery is not None
        if delivery.message.text:
            missing.discard(delivery.message.text)
        else:
            received[delivery.sender] = delivery.message.tensors
            missing.discard(delivery.sender)
    ranked = [received[name] for name in group.members if name in received]
    means = tuple(_mean(parts) for parts in zip(*ranked, strict=True))
    for name in group.members[1:]:
        await port.send(name, Message(f"{TOPIC}.mean", tensors=means))
    return means


def _mean(parts: Sequence[Tensor]) -> Tensor:
    """The mean of `parts`; equal parts are returned as they are, because dividing their sum need not give them back."""
    if all(torch.equal(part, parts[0]) for part in parts[1:]):
        return parts[0]
    return torch.stack(list(parts)).mean(dim=0)
