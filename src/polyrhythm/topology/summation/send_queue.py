"""Messages that leave in the order of their priority, few at a time."""

from __future__ import annotations

from heapq import heappop, heappush

from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port

Priority = tuple[int, ...]
"""The least goes first."""


class SendQueue:
    """At most one message to each receiver is on its way out, and messages to at most `lanes` receivers.

    So what is urgent overtakes what was put before it, as in ByteScheduler (Peng et al., 2019), whose credit bounds what can no longer be
    overtaken. Of equal priority, what was put first goes first.
    """

    def __init__(self, port: Port, lanes: int) -> None:
        self.port = port
        self.lanes = lanes
        self.waiting: dict[str, list[tuple[Priority, int, Message]]] = {}
        self.busy: set[str] = set()
        self.put_so_far = 0
        self.empty = Latch()

    async def put(self, priority: Priority, to: str, message: Message) -> None:
        """Send `message` when its turn comes."""
        self.put_so_far += 1
        heappush(self.waiting.setdefault(to, []), (priority, self.put_so_far, message))
        if to not in self.busy and len(self.busy) < self.lanes:
            await self.port.spawn("sends", self._send(*self._next()))

    async def drain(self) -> None:
        """Wait until all has left."""
        while self.busy:
            self.empty = Latch()
            await self.port.wait(self.empty)

    def _next(self) -> tuple[str, Message]:
        """Take the most urgent message to a receiver that is not busy, who is so from now on."""
        to = min((name for name in self.waiting if name not in self.busy), key=lambda name: self.waiting[name][0][:2])
        _, _, message = heappop(self.waiting[to])
        if not self.waiting[to]:
            del self.waiting[to]
        self.busy.add(to)
        return to, message

    async def _send(self, to: str, message: Message) -> None:
        while True:
            await self.port.send(to, message)
            await self.port.flush(to)
            self.busy.remove(to)
            if all(name in self.busy for name in self.waiting):
                break
            to, message = self._next()
        if not self.busy:
            self.empty.open()
