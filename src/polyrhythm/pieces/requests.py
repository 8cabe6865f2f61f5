"""The questions that a codec's aggregation may ask of everybody at once, and who answers them."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.kernel.effects import Effect

Packet = tuple[Tensor, ...]
"""What one message of a codec consists of."""

Operation = Coroutine[Effect[Any], Any, Any]


class CollectiveOperations(Protocol):
    """Whoever answers collective questions: all workers ask the same ones in the same order."""

    def all_reduce(self, value: Tensor) -> Operation:
        """The sum of everyone's `value`, the same bits for everybody."""

    def all_gather(self, packet: Packet) -> Operation:
        """Everyone's packets, in rank order."""

    def all_to_all(self, packets: Sequence[Packet]) -> Operation:
        """Packet k goes to worker k; the packets that were meant for me, in rank order of their senders."""


@dataclass(frozen=True, slots=True)
class AllReduceRequest:
    """The sum of everyone's value, please."""

    value: Tensor

    def perform(self, operations: CollectiveOperations) -> Operation:
        """Put the question."""
        return operations.all_reduce(self.value)


@dataclass(frozen=True, slots=True)
class AllGatherRequest:
    """Everyone's packet, please."""

    packet: Packet

    def perform(self, operations: CollectiveOperations) -> Operation:
        """Put the question."""
        return operations.all_gather(self.packet)


@dataclass(frozen=True, slots=True)
class AllToAllRequest:
    """One packet to each, and what each has for me, please."""

    packets: Sequence[Packet]

    def perform(self, operations: CollectiveOperations) -> Operation:
        """Put the question."""
        return operations.all_to_all(self.packets)


CollectiveRequest = AllReduceRequest | AllGatherRequest | AllToAllRequest
