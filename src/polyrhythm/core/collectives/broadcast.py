"""Send one worker's tensors to all others, over a binomial tree.

Topologies send worker 0's initial weights with it, a replica its tensors that are not trained, and `worker.broadcast` what the user gives.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port


async def broadcast(port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
    """Worker 0's `value`, at every worker.

    Worker r receives from r without its lowest set bit and sends to those above it, the largest subtree first and one at a time, so
    that P workers take ⌈log2 P⌉ (latency + nbytes / bandwidth). In all P - 1 messages.
    """
    return (await broadcast_message(port, group, Message(topic, tensors=(value,)))).tensors[0]


async def broadcast_message(port: Port, group: Group, message: Message) -> Message:
    """Send a whole message from worker 0 to all, over the tree of `broadcast`; at the other workers only the topic of `message` counts."""
    topic = message.topic
    if not group.is_first:
        delivery = await port.receive(topic, group.members[group.rank & (group.rank - 1)])
        assert delivery is not None
        message = replace(delivery.message, topic=topic)  # a scoped port puts its scope before it again
    await pass_on(port, group, message)
    return message


async def flat_broadcast(port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
    """Worker 0's `value`, at every worker; worker 0 sends to all itself, so that no worker depends on another that may be lost."""
    return (await flat_broadcast_message(port, group, Message(topic, tensors=(value,)))).tensors[0]


async def flat_broadcast_message(port: Port, group: Group, message: Message) -> Message:
    """Send a whole message from worker 0 to each other worker; at these only the topic of `message` counts."""
    if not group.is_first:
        delivery = await port.receive(message.topic, group.first)
        assert delivery is not None
        return delivery.message
    for name in group.members[1:]:
        await port.send(name, message)
    return message


async def pass_on(port: Port, group: Group, message: Message) -> None:
    """Send `message` to the workers that receive it from this one."""
    rank, reach = group.rank, 1
    while reach < group.size and not rank & reach:
        reach <<= 1
    reach >>= 1
    while reach:
        if rank + reach < group.size:
            await port.send(child := group.members[rank + reach], message)
            await port.flush(child)  # and not what else is under way, such as an exchange among groups that is used a step later
        reach >>= 1


def children(rank: int, workers: int) -> range:
    """Ranks of the subtree below `rank`: workers that receive from it, directly or through others."""
    return range(rank + 1, min(workers, rank + (rank & -rank)))
