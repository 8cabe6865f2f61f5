"""Protocols of all-reduce algorithms, and the two collective operations that are the same for all of them.

Members are in `topology.collective.algorithms`; `AllReduce` and the codecs' requests use them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Rounding
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.requests import Packet


class AnyReduction(Protocol):
    """A way for P workers to get the sum of a tensor."""

    async def reduce(self, port: Port, group: Group, value: Tensor, topic: str) -> Tensor:
        """The sum of the `value` of all workers (any shape), with the same bits at every worker."""


class Algorithm(AnyReduction, Protocol):
    """A reduction with a closed form: `seconds` and `traffic` (`kernel.effects.Schedule`)."""

    @property
    def rounding(self) -> Rounding:
        """The rounding of its sums in addition to that of their type."""

    def seconds(self, nbytes: int, workers: int, latency: float, bandwidth: float) -> float:
        """Seconds of one reduction over equal links."""

    def traffic(self, value: Tensor, workers: int, topic: str) -> tuple[int, int]:
        """Bytes, with headers, and messages that all workers together send."""

    def first(self, part: int, workers: int, nbytes: int) -> int | None:
        """The rank with which the sum of a part of `nbytes` starts; the others follow in order. None if the sum is nested otherwise."""


def all_gather(port: Port, group: Group, packet: Packet, topic: str) -> Coroutine[Any, Any, list[Packet]]:
    """The packets of all workers in rank order; each sends to all, starting with the next in rank."""
    return all_to_all(port, group, [packet] * group.size, topic)


async def all_to_all(port: Port, group: Group, packets: Sequence[Packet], topic: str) -> list[Packet]:
    """The packets that all workers have for this one, in rank order; `packets[k]` goes to worker k."""
    rank, workers = group.rank, group.size
    received = list(packets)
    for step in range(1, workers):
        to = (rank + step) % workers
        await port.send(group.members[to], Message(f"{topic}.{rank}", tensors=packets[to]))
    for step in range(1, workers):
        sender = (rank - step) % workers
        delivery = await port.receive(f"{topic}.{sender}", group.members[sender])
        assert delivery is not None
        received[sender] = delivery.message.tensors
    return received
