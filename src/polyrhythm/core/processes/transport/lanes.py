"""Several connections to one peer, which share the payloads of large messages.

One TCP connection begins with ten packets on the way, and each round trip doubles them; it falls back after a silence, and halves
for a lost packet. On a long path several together fill the line at once. How many follows from what the system has measured: the
bytes that the path holds, by those that one connection may send. On a short one there are none, and the first carries everything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.loop import Callback
from polyrhythm.core.processes.transport.path import PathEstimate
from polyrhythm.core.processes.transport.stripes import can_be_cut, cut

LEAST = 32 * 1024
"""Smaller payloads are not cut: they fit into a first window or two."""
_SMALLEST_STRIPE = 16 * 1024
_LARGEST_STRIPE = 64 * 1024
_SHORT_SECONDS = 0.005
"""A round trip that is less is not worth a lane: windows open within a few of them. There the queues are short too, and several
connections that start at once overflow them: at 200 Mbit/s and 1.2 ms eight lanes took 1.4 to 2.1 times as long as one."""
_LATE_SECONDS = 0.02
"""A busy host looks after its connections so much later than it should: what may be on the way, and what lies ready in the system
to be sent, must last so long."""
_LEAST_CUSHION, _MOST_CUSHION = 128 * 1024, 4 << 20
_LASTING = 8
"""Lanes are opened when half of so many messages needed them; those after the first of a burst may find the window open."""
_NEWS = 1.25
"""A rate is noted when it is so many times the one before."""


def needed(paths: list[PathEstimate], rate: float, payload: int) -> int:
    """The number of connections like these that fill a path of `rate` bytes per second at once with `payload` bytes."""
    round_trip = min(path.round_trip for path in paths)
    if round_trip < _SHORT_SECONDS:
        return 1
    window = sum(path.window for path in paths) / len(paths)
    return ceil(min(payload, rate * (round_trip + _LATE_SECONDS)) / max(window, 1.0))


class Lanes:
    """The lanes to one peer. `dial(number)` is called to open one; once it is proved, it is to be given to `join`."""

    def __init__(self, wiring: Wiring, dial: Callable[[int], None]) -> None:
        self.links: list[FrameLink] = []
        self._wiring = wiring
        self._dial = dial
        self._dialled = 0
        self._most = wiring.lanes
        self._number = 0
        self._rate = 0.0
        self._needs: deque[int] = deque(maxlen=_LASTING)
        self._queue: deque[list[memoryview]] = deque()
        self._blocked: set[FrameLink] = set()
        self._when_idle: list[Callback] = []

    def send(self, message: Message, main: FrameLink) -> bool:
        """Send `message` in stripes, and its frame over `main`; False if it should go over `main` as it is."""
        payload = sum([tensor.nbytes for tensor in message.tensors])
        if payload < LEAST or self._wiring.lanes < 2:
            return False
        self._consider(main, payload)
        if len(self.links) < 2 or not can_be_cut(message):
            return False
        main.announce(message, self._number)
        size = min(max(_SMALLEST_STRIPE, -(-payload // len(self.links))), _LARGEST_STRIPE)
        self._queue.extend(cut(message, self._number, size))
        self._number += 1
        self._feed()
        return True

    def join(self, link: FrameLink) -> None:
        """A lane has been opened and proved."""
        self.links.append(link)
        self._feed()

    def suffice(self) -> None:
        """Open no more than there are: one could not be opened, and the connection does without it."""
        self._most = 0

    def when_idle(self, call: Callback) -> None:
        """Make `call` when all stripes have gone to the system."""
        if self._queue or self._blocked:
            self._when_idle.append(call)
        else:
            call()

    def end(self) -> None:
        """Drop what was not sent."""
        self._queue.clear()
        self._blocked.clear()
        self._feed()

    def _consider(self, main: FrameLink, payload: int) -> None:
        """Open more, if those that there are cannot fill the path at once."""
        used = [path for link in self.links or [main] if (path := link.path()) is not None]
        if not used:
            return
        # a rate is measured while something is sent, so the best yet stands for what the path can do
        rate = sum(path.rate for path in used)
        if rate > self._rate * _NEWS:
            self._rate = rate
            cushion = int(min(max(_LATE_SECONDS * rate, _LEAST_CUSHION), _MOST_CUSHION))
            for link in self.links or [main]:
                link.cushion(max(cushion // len(used), _SMALLEST_STRIPE))
        self._note(used, payload)
        # a young connection's window is small, and grows by itself: only a need that lasts is one
        wanted = max(self._wiring.fewest_lanes, sorted(self._needs)[_LASTING // 2] if len(self._needs) == _LASTING else 0)
        while wanted > 1 and self._dialled < min(wanted, self._most):
            self._dialled += 1
            self._dial(self._dialled)

    def _note(self, used: list[PathEstimate], payload: int) -> None:
        """Remember how many would have been needed, unless the message is too small for an estimate."""
        if payload > sum(path.window for path in used) / len(used):
            self._needs.append(needed(used, self._rate, payload))

    def _feed(self) -> None:
        """Give each lane that has room one stripe after another, in turns."""
        while self._queue:
            free = [link for link in self.links if link not in self._blocked]
            if not free:
                return
            for link in free:
                if self._queue:
                    self._give(link, self._queue.popleft())
        if not self._blocked:
            calls, self._when_idle = self._when_idle, []
            for call in calls:
                call()

    def _give(self, link: FrameLink, stripe: list[memoryview]) -> None:
        link.push(stripe)
        if link.busy:
            self._blocked.add(link)
            link.when_drained(lambda: self._unblock(link))

    def _unblock(self, link: FrameLink) -> None:
        if link in self._blocked:
            self._blocked.remove(link)
            self._feed()
