"""The connections of an actor that faults cut for a while, or that lose messages; `ActorFaults` puts it before the real ones."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from polyrhythm.core.kernel.message import ASIDE, Message, wire_bytes
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.peers import Peers
from polyrhythm.hardware.faults.losses import Losses

Deed = Callable[[], None]


class FaultyOutbox:
    """Sends what `name` sends by `peers`: later where a connection is cut, and never what `losses` draw. In the loop's thread."""

    def __init__(self, name: str, peers: Peers, loop: EventLoop, losses: Losses) -> None:
        self._name = name
        self._peers = peers
        self._loop = loop
        self._losses = losses
        self._cuts: dict[str, int] = {}
        self._held: dict[str, deque[Deed]] = {}
        self._loses: dict[str, Callable[[str], bool] | None] = {}
        self._fates: dict[str, Callable[[str], tuple[float, ...]]] = {}
        self._waiting: list[Deed] = []
        self._severed: set[str] = set()

    def send(self, to: str, message: Message) -> None:
        """Send `message`, count it and lose it, or keep it until the connection is mended; the runtime's own messages are not touched."""
        if to == self._name or message.topic[:1] == ASIDE:
            self._peers.send(to, message)
            return
        if to not in self._loses:
            self._loses[to] = self._losses.of_messages(self._name, to, (self._name,), (to,))
        loses = self._loses[to]
        if loses is not None and loses(message.topic):
            self._peers.count(wire_bytes(message), 1)
        else:
            self._pass(to, lambda: self._peers.send(to, message))

    def send_datagram(self, to: str, message: Message) -> None:
        """Send the copies of `message` that arrive, each as late as was drawn."""
        if to not in self._fates:
            self._fates[to] = self._losses.of_datagrams(self._name, to, (self._name,), (to,), 0.0)
        delays = self._fates[to](message.topic) if to != self._name else (0.0,)
        if not delays:
            self._peers.count(wire_bytes(message), 1)
        for delay in delays:
            deed: Deed = lambda: self._pass(to, lambda: self._peers.send_datagram(to, message))  # noqa: E731
            if delay:
                self._loop.after(delay, deed)
            else:
                deed()

    def when_drained(self, call: Deed, to: str = "") -> None:
        """Make `call` when all that was sent so far has left, what is held too."""
        if any(self._held.values()) if not to else self._held.get(to):
            self._waiting.append(lambda: self.when_drained(call, to))
        else:
            self._peers.when_drained(call, to)

    def rate(self, to: str = "") -> float | None:
        """That of the real connections."""
        return self._peers.rate(to)

    def cut(self, to: str, seconds: float) -> None:
        """Hold what is sent to the actor `to`, for `seconds` from now."""
        self._cuts[to] = self._cuts.get(to, 0) + 1
        if seconds < math.inf:
            self._loop.after(seconds, lambda: self._mend(to))
        else:
            self._severed.add(to)

    def _pass(self, to: str, deed: Deed) -> None:
        if to in self._severed:
            return  # it would never leave, and nobody waits for that
        if self._cuts.get(to):
            self._held.setdefault(to, deque()).append(deed)
        else:
            deed()

    def _mend(self, to: str) -> None:
        self._cuts[to] -= 1
        held = self._held.get(to)
        while held and not self._cuts[to]:
            held.popleft()()
        if not held:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()
