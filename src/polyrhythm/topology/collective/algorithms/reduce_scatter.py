"""The first half of an all-reduce: each worker comes to know the sum of one part, and no more than that travels."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port


async def scatter_directly(port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
    """Part r of the sum at worker r: each sends every other its part, all at once; P - 1 messages of 1 / P of the tensor.

    `value` (any shape) is cut as `torch.tensor_split(value.reshape(-1), P)` cuts it; the response is the part of `group.rank`.
    Part k is summed in rank order beginning with worker k, whichever comes first.
    """
    rank, workers = group.rank, group.size
    parts = torch.tensor_split(value.reshape(-1), workers)
    for step in range(1, workers):
        to = (rank + step) % workers
        await port.send(group.members[to], Message(f"{topic}.{rank}", tensors=(parts[to],)))
    total = parts[rank]
    for step in range(1, workers):
        sender = (rank + step) % workers
        delivery = await port.receive(f"{topic}.{sender}", group.members[sender])
        assert delivery is not None
        total = total + delivery.message.tensors[0]
    return total
