"""A link that connections share fairly, as flows do in the simulator: start-time fair queueing (Goyal et al., SIGCOMM 1996).

In one queue for all, first come, first served, a flow with more packets gets more of the link, and acknowledgements wait behind the data of
others. Real links do both; the simulator, with which the lab is compared, does neither.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush

from polyrhythm.tools.emulation.segments import Packet, PacketScheduler

_MANY = 256


@dataclass(slots=True)
class FlowQueue:
    """The waiting packets of one flow with their start tags, their bytes, and the finish tag of the last."""

    packets: deque[tuple[float, Packet]] = field(default_factory=deque)
    nbytes: int = 0
    finish: float = 0.0


class FairLink:
    """A link of `rate` bytes per second with a queue of at most `limit` bytes.

    What does not fit is dropped from the end of the longest queue. Packets of one flow stay in order.
    """

    __slots__ = ("_busy", "_count", "_due", "_queues", "_virtual", "_waiting", "limit", "rate")

    def __init__(self, rate: float, limit: float) -> None:
        self.rate = rate
        self.limit = limit
        self._busy = False
        self._waiting = 0
        self._virtual = 0.0  # the start tag of the packet in service; tags are in bytes
        self._queues: dict[tuple[bytes, int], FlowQueue] = {}  # by flow and place on its way, for a medium is taken twice
        self._due: list[tuple[float, int, Packet]] = []  # all that waits, by start tag; what was dropped stays until it comes up
        self._count = 0

    def enter(self, packet: Packet, agenda: PacketScheduler) -> None:
        """Append the packet to the queue of its flow."""
        queue = self._queues.get((packet.flow, packet.passed))
        if queue is None:
            queue = self._open((packet.flow, packet.passed))
        start = max(self._virtual, queue.finish)
        queue.packets.append((start, packet))
        queue.nbytes += packet.nbytes
        queue.finish = start + packet.nbytes
        self._waiting += packet.nbytes
        self._count += 1
        heappush(self._due, (start, self._count, packet))
        if not self._busy:
            self._serve(packet.head, agenda)
        while self._waiting > self.limit:
            self._drop_from_longest(agenda)

    def _serve(self, now: float, agenda: PacketScheduler) -> None:
        """Send the next packet on the link, which is free at `now`."""
        while self._due:
            start, _, packet = heappop(self._due)
            queue = self._queues.get((packet.flow, packet.passed))
            if queue is None or not queue.packets or queue.packets[0][1] is not packet:
                continue  # it was dropped
            queue.packets.popleft()
            queue.nbytes -= packet.nbytes
            self._waiting -= packet.nbytes
            self._virtual = start
            self._busy = True
            free = now + packet.nbytes / self.rate
            packet.head = now
            packet.tail = max(packet.tail, free)
            agenda.onward(packet)
            agenda.call(free, self._serve)
            return
        self._busy = False
        self._virtual = 0.0
        self._queues.clear()

    def _drop_from_longest(self, agenda: PacketScheduler) -> None:
        longest = max(self._queues.values(), key=lambda queue: queue.nbytes)
        longest.finish, packet = longest.packets.pop()
        longest.nbytes -= packet.nbytes
        self._waiting -= packet.nbytes
        agenda.drop(packet)

    def _open(self, flow: tuple[bytes, int]) -> FlowQueue:
        """An empty queue for `flow`; those of connections that have ended are forgotten once there are many."""
        if len(self._queues) > _MANY:
            self._queues = {name: queue for name, queue in self._queues.items() if queue.packets or queue.finish > self._virtual}
        queue = self._queues[flow] = FlowQueue()
        return queue
