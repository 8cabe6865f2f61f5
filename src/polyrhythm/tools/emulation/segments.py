"""The segments of a packet's path: distances, which delay, jitter or lose it, and links, which flows share.

A packet is an interval of time, from its `head` (the first byte) to its `tail` (the last). Bytes are forwarded as they arrive, so a packet
without contention takes its length over the slowest rate of the path once, and not once a link: as a flow does in the simulator. A link is
busy for `nbytes` over its rate, one packet after the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True, eq=False)
class Packet:
    """`frame` of the connection `flow` on its way to the host `target`: `nbytes` count on links, `head` and `tail` are seconds."""

    flow: bytes
    target: int
    nbytes: int
    frame: bytes
    way: tuple[PathSegment, ...]
    head: float
    tail: float
    passed: int = 0


class PacketScheduler(Protocol):
    """The part of the fabric that a segment uses."""

    def onward(self, packet: Packet) -> None:
        """Let `packet` enter its next segment at the time of its head."""
        ...

    def drop(self, packet: Packet) -> None:
        """Forget `packet`, and count that."""
        ...

    def call(self, when: float, deed: Callable[[float, PacketScheduler], None]) -> None:
        """Do `deed` at `when`."""
        ...


class PathSegment(Protocol):
    """A part of a path."""

    def enter(self, packet: Packet, agenda: PacketScheduler) -> None:
        """Take a packet whose head arrives now; packets enter in the order of time."""
        ...


class Distance:
    """The way from one host to another: `latency` seconds one way, give or take a uniform `jitter`; loses packets with a probability.

    Packets never overtake each other: one that drew a short delay arrives with the one before it.
    """

    __slots__ = ("_chance", "_head", "_jitter", "_latency", "_loss", "_tail")

    def __init__(self, latency: float, jitter: float = 0.0, loss: float = 0.0, seed: str = "") -> None:
        self._latency = latency
        self._jitter = jitter
        self._loss = loss
        self._chance = random.Random(seed) if jitter or loss else None
        self._head = self._tail = 0.0

    def enter(self, packet: Packet, agenda: PacketScheduler) -> None:
        """Delay the packet, or lose it."""
        delay = self._latency
        if self._chance is not None:
            # both are always drawn, so that one setting does not move the draws of the other
            lost, swing = self._chance.random() < self._loss, self._chance.uniform(-1.0, 1.0)
            if lost:
                agenda.drop(packet)
                return
            delay = max(0.0, delay + swing * self._jitter)
        self._head = packet.head = max(self._head, packet.head + delay)
        self._tail = packet.tail = max(self._tail, packet.tail + delay)
        agenda.onward(packet)
