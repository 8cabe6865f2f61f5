"""The questions that a codec's aggregation may ask of everybody at once, and who answers them."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from polyrhythm.kernel.effects import Effect

Packet = tuple[Tensor, ...]
"""What one message of a codec consists of."""

Answering = Coroutine[Effect[Any], Any, Any]


class Collective(Protocol):
    """Whoever answers collective questions: all workers ask the same ones in the same order."""

    def reduce(self, value: Tensor) -> Answering:
        """The sum of everyone's `value`, the same bits for everybody."""

    def gather(self, packet: Packet) -> Answering:
        """Everyone's packets, in rank order."""

    def scatter(self, packets: Sequence[Packet]) -> Answering:
        """Packet k goes to worker k; the packets that were meant for me, in rank order of their senders."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """The sum of everyone's value, please."""

    value: Tensor

    def ask(self, collective: Collective) -> Answering:
        """Put the question."""
        return collective.reduce(self.value)


@dataclass(frozen=True, slots=True)
class Gather:
    """Everyone's packet, please."""

    packet: Packet

    def ask(self, collective: Collective) -> Answering:
        """Put the question."""
        return collective.gather(self.packet)


@dataclass(frozen=True, slots=True)
class Scatter:
    """One packet to each, and what each has for me, please."""

    packets: Sequence[Packet]

    def ask(self, collective: Collective) -> Answering:
        """Put the question."""
        return collective.scatter(self.packets)


CollectiveRequest = Reduce | Gather | Scatter
