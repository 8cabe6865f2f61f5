"""The requests that a codec's aggregation makes of all workers at once, and the protocol of what performs them.

Codecs yield them; a worker's collective client (`topology.collective`) performs each and sends the result back.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.group import Group

Packet = tuple[Tensor, ...]
"""The tensors of one message of a codec."""

Operation = Coroutine[Effect[Any], Any, Any]


class CollectiveOperations(Protocol):
    """Performs collective requests: all workers make the same ones in the same order."""

    @property
    def group(self) -> Group:
        """The group of these workers."""

    def all_reduce(self, value: Tensor) -> Operation:
        """The sum of the `value` of all workers, with the same bits at each."""

    def all_gather(self, packet: Packet) -> Operation:
        """The packets of all workers, in rank order."""

    def all_to_all(self, packets: Sequence[Packet]) -> Operation:
        """Packet k goes to worker k; the result is the packets for this worker, in rank order of their senders."""


@dataclass(frozen=True, slots=True)
class AllReduceRequest:
    """The sum of the values of all workers."""

    value: Tensor

    def perform(self, operations: CollectiveOperations) -> Operation:
        """Start the all-reduce with `operations`."""
        return operations.all_reduce(self.value)

    def repeated(self, group: Group) -> Tensor:
        """The result if all of `group` had made this request."""
        return self.value * group.size


@dataclass(frozen=True, slots=True)
class AllGatherRequest:
    """The packets of all workers, in rank order."""

    packet: Packet

    def perform(self, operations: CollectiveOperations) -> Operation:
        """Start the all-gather with `operations`."""
        return operations.all_gather(self.packet)

    def repeated(self, group: Group) -> list[Packet]:
        """The result if all of `group` had made this request."""
        return [self.packet] * group.size


@dataclass(frozen=True, slots=True)
class AllToAllRequest:
    """One packet to each worker; the result is the packet of each for this one."""

    packets: Sequence[Packet]

    def perform(self, operations: CollectiveOperations) -> Operation:
        """Start the all-to-all with `operations`."""
        return operations.all_to_all(self.packets)

    def repeated(self, group: Group) -> list[Packet]:
        """The result if all of `group` had made this request."""
        return [self.packets[group.rank]] * group.size


CollectiveRequest = AllReduceRequest | AllGatherRequest | AllToAllRequest
