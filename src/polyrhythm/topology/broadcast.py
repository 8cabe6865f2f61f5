"""Bring one worker's tensors to all others, over a binomial tree."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.kernel.message import Message
from polyrhythm.kernel.port import Port, worker
from polyrhythm.pieces.terms import Place


async def broadcast(port: Port, place: Place, value: Tensor, topic: str) -> Tensor:
    """Worker 0's `value`, at every worker.

    Worker r hears from r without its lowest set bit and tells those above it, the largest subtree first and one at a time, so
    that P workers take ⌈log2 P⌉ (latency + nbytes / bandwidth). In all P - 1 messages.
    """
    rank, reach = place.rank, 1
    while reach < place.workers and not rank & reach:
        reach <<= 1
    if rank:
        delivery = await port.receive(topic, worker(rank - reach))
        assert delivery is not None
        value = delivery.message.tensors[0]
    reach >>= 1
    while reach:
        if rank + reach < place.workers:
            await port.send(worker(rank + reach), Message(topic, tensors=(value,)))
            await port.flush()
        reach >>= 1
    return value
