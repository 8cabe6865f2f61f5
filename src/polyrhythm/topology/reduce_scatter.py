"""The first half of an all-reduce: each worker comes to know the sum of one part, and no more than that travels."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.kernel.message import Message
from polyrhythm.kernel.port import Port, worker
from polyrhythm.pieces.terms import Place


async def scatter_directly(port: Port, place: Place, value: Tensor, topic: str) -> Tensor:
    """Part r of the sum at worker r: everyone sends every other its part, all at once; P - 1 messages of 1 / P of the tensor.

    `value` (any shape) is cut as `torch.tensor_split(value.reshape(-1), P)` cuts it; the answer is the part of `place.rank`.
    Part k is summed in rank order beginning with worker k, whoever comes first.
    """
    rank, workers = place.rank, place.workers
    parts = torch.tensor_split(value.reshape(-1), workers)
    for step in range(1, workers):
        to = (rank + step) % workers
        await port.send(worker(to), Message(f"{topic}.{rank}", tensors=(parts[to],)))
    total = parts[rank]
    for step in range(1, workers):
        sender = (rank + step) % workers
        delivery = await port.receive(f"{topic}.{sender}", worker(sender))
        assert delivery is not None
        total = total + delivery.message.tensors[0]
    return total
