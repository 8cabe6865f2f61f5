"""One actor's connection to another, from before it is open until all that was sent has been taken in."""

from __future__ import annotations

from collections import deque

from polyrhythm.kernel.message import Message
from polyrhythm.processes.links import Link
from polyrhythm.processes.loop import Callback

_CLOSING = Message("closing")


class Outbound:
    """The connection that this actor opened to another, or is opening."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.link: Link | None = None
        self.ready = False
        self.over = False
        self.closing: Callback | None = None
        self.backlog: deque[Message] = deque()
        self.after_backlog: list[Callback] = []

    def send(self, message: Message) -> None:
        """Send in the background; once connected, if that is not yet so."""
        if self.ready and self.link is not None:
            self.link.send(message)
        elif not self.over:
            self.backlog.append(message)

    def when_drained(self, call: Callback) -> None:
        """Make `call` when all has gone to the system, or the connection is over."""
        if self.over:
            call()
        elif self.ready and self.link is not None:
            self.link.when_drained(call)
        else:
            self.after_backlog.append(lambda: self.when_drained(call))

    def close(self, done: Callback) -> None:
        """Say that nothing more will come; `done` is called when the other has taken everything in, or is no more."""
        self.closing = done
        if self.over:
            self._finish()
        elif self.ready and self.link is not None:
            self.link.control(_CLOSING)

    def open(self, link: Link) -> None:
        """The peer has proved itself: send what has waited."""
        link.share()
        self.ready = True
        while self.backlog:
            link.send(self.backlog.popleft())
        if self.closing is not None:
            link.control(_CLOSING)
        self._run_waiting()

    def end(self) -> None:
        """The connection is over, in one way or another."""
        if not self.over:
            self.over = True
            self.backlog.clear()
            self._run_waiting()
            self._finish()

    def _finish(self) -> None:
        done, self.closing = self.closing, None
        if done is not None:
            done()

    def _run_waiting(self) -> None:
        calls, self.after_backlog = self.after_backlog, []
        for call in calls:
            call()
