"""All packets under way between the hosts, as a function of time: deterministic, without a clock or a socket."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush

import msgspec

from polyrhythm.tools.emulation.fair_link import FairLink
from polyrhythm.tools.emulation.segments import Packet, PacketScheduler, PathSegment

Deed = Callable[[float, PacketScheduler], None]


class RelayTraffic(msgspec.Struct):
    """The traffic so far: packets and bytes that count on links, by `[from][to]`, and the number of packets dropped on the way."""

    packets: list[list[int]]
    nbytes: list[list[int]]
    dropped: int = 0

    @classmethod
    def none(cls, hosts: int) -> RelayTraffic:
        """Before anything was sent among `hosts`."""
        return cls([[0] * hosts for _ in range(hosts)], [[0] * hosts for _ in range(hosts)])


class Fabric:
    """Carries packets over `ways`, the segments by `[from][to]`.

    A driver `send`s what hosts have sent until now, calls `advance` to get what has arrived until now, and sleeps until `next_time`.
    """

    def __init__(self, ways: Sequence[Sequence[tuple[PathSegment, ...]]]) -> None:
        self._ways = ways
        self._due: list[tuple[float, int, Deed]] = []
        self._count = 0  # breaks ties: first come, first served
        self._arrived: list[tuple[int, bytes]] = []
        self.traffic = RelayTraffic.none(len(ways))

    def send(self, now: float, pair: tuple[int, int], flow: bytes, nbytes: int, frame: bytes) -> None:
        """Send at `now`, from the first of `pair` to the second, a frame of the connection `flow` that counts as `nbytes`."""
        source, target = pair
        self.traffic.packets[source][target] += 1
        self.traffic.nbytes[source][target] += nbytes
        self.onward(Packet(flow, target, nbytes, frame, self._ways[source][target], now, now))

    def plan(self, began: float, changes: Sequence[tuple[float, FairLink, float]]) -> None:
        """Give links other rates, each so many seconds after `began`; a packet that is on the link then keeps its time."""
        for after, link, rate in changes:
            self.call(began + after, partial(_change, link, rate))

    def next_time(self) -> float:
        """The time of the next event; math.inf if nothing is under way."""
        return self._due[0][0] if self._due else math.inf

    def advance(self, now: float) -> list[tuple[int, bytes]]:
        """The frames that have arrived until `now`, each with its target, in the order of their arrival."""
        due = self._due
        while due and due[0][0] <= now:
            when, _, deed = heappop(due)
            deed(when, self)
        arrived, self._arrived = self._arrived, []
        return arrived

    def onward(self, packet: Packet) -> None:
        """Let `packet` enter its next segment at the time of its head, or arrive at that of its tail."""
        if packet.passed == len(packet.way):
            self.call(packet.tail, lambda when, agenda: self._arrived.append((packet.target, packet.frame)))
            return
        segment = packet.way[packet.passed]
        packet.passed += 1
        self.call(packet.head, lambda when, agenda: segment.enter(packet, agenda))

    def drop(self, packet: Packet) -> None:
        """Count a packet that a segment has dropped."""
        self.traffic.dropped += 1

    def call(self, when: float, deed: Deed) -> None:
        """Do `deed` at `when`, after what is scheduled for that time already."""
        self._count += 1
        heappush(self._due, (when, self._count, deed))


def _change(link: FairLink, rate: float, now: float, agenda: PacketScheduler) -> None:
    link.rate = rate
