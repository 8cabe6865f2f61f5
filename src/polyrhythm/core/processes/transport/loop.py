"""The event loop of a process: sockets, timers, and calls from other threads, one at a time.

The thread of `run` waits for an outer epoll instance that holds nothing but the selector. A thread that waits for something the loop will
bring serves it itself with `drive`: it takes the selector out of the outer instance, waits for the selector directly, and puts it back in
the end. The thread of `run` sleeps through all that, and no thread wakes another (docs/decisions/threads-that-drive-the-loop.md).
"""

from __future__ import annotations

import heapq
import math
import os
import select
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from socket import socket

_LONGEST_SECONDS = 3600.0
"""The system refuses to wait for more than some weeks at once; after this long the loop just looks again."""
_DRIVEN_SECONDS = 0.5
"""The longest sleep of a program that drives the loop: an interrupt that comes just before it sleeps is handled only when it wakes."""
_COMPACT_AT = 1024

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE
Callback = Callable[[], None]
Watcher = Callable[[int], None]


class LoopTimer:
    """A call at a time to come, until it is cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callback) -> None:
        self.call: Callback | None = call

    def cancel(self) -> None:
        """Never make the call."""
        self.call = None


class EventLoop:
    """Runs callbacks when sockets are ready, when timers are due, and when another thread calls.

    All run in the thread of `run`, or of `drive` while another thread drives; never two at a time.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._bell, READ, None)
        self._outer = select.epoll()
        self._outer.register(self._selector.fileno(), select.EPOLLIN)
        self._serving = threading.Lock()
        self._driving = threading.Lock()
        self._due = math.inf
        self._calls: deque[Callback] = deque()
        self._timers: list[tuple[float, int, LoopTimer]] = []
        self._order = count()
        self._asleep = False
        self._stopped = False

    def call(self, callback: Callback) -> None:
        """Have `callback` run in the loop, soon; from any thread."""
        self._calls.append(callback)
        if self._asleep:
            os.eventfd_write(self._bell, 1)

    def after(self, seconds: float, call: Callback) -> LoopTimer:
        """Have `call` made `seconds` from now; only from the loop's own thread, or before it runs."""
        timer = LoopTimer(call)
        number = next(self._order)
        heapq.heappush(self._timers, (time.monotonic() + seconds, number, timer))
        if not number % _COMPACT_AT:
            self._compact()
        return timer

    def watch(self, source: socket | int, events: int, watcher: Watcher) -> None:
        """Call `watcher` with what `source` is ready for, whenever that is among `events`."""
        self._selector.register(source, events, watcher)

    def change(self, source: socket | int, events: int, watcher: Watcher) -> None:
        """Watch a source that is watched already for other events."""
        self._selector.modify(source, events, watcher)

    def forget(self, source: socket | int) -> None:
        """Watch `source` no more."""
        self._selector.unregister(source)

    def run(self) -> None:
        """Serve until `stop`; what a callback raises comes out of here, and `run` may be called again."""
        while not self._stopped:
            with self._serving:
                # set before looking for calls: a caller who comes after that look sees it and wakes the loop
                self._asleep = True
                patience = 0.0 if self._calls else self._patience()
                self._due = self._next()
            self._outer.poll(patience)
            with self._serving:
                self._asleep = False
                self._serve(0)
        self._stopped = False

    def drive(self, calls: Iterable[Callback], enough: Callable[[], bool]) -> bool:
        """Make `calls` in the loop; then serve in the calling thread until `enough()`, asked after callbacks and now and then.

        False, and nothing done, if another thread does so already. What a callback raises comes out of here; those that were to follow it
        are called by who serves next. The thread of `run` does nothing meanwhile.
        """
        if not self._driving.acquire(blocking=False):
            return False
        try:
            with self._serving:
                self._asleep = False
                self._outer.unregister(self._selector.fileno())
                try:
                    self._calls.extend(calls)
                    self._run_calls()
                    while not enough():
                        self._asleep = True
                        patience = self._patience()
                        self._serve(0 if self._calls else _DRIVEN_SECONDS if patience is None else min(patience, _DRIVEN_SECONDS))
                finally:
                    self._return()
        finally:
            self._driving.release()
        return True

    def wake(self) -> None:
        """Have `drive` ask whether it is enough, soon; also from a signal handler."""
        os.eventfd_write(self._bell, 1)

    def stop(self) -> None:
        """End `run` after the callbacks that are due, or as soon as it is called."""
        self._stopped = True

    def close(self) -> None:
        """Give the loop's own descriptors back."""
        self._asleep = False  # an interrupt leaves it set, and a late call would ring a bell that is gone
        self._outer.close()
        self._selector.close()
        os.close(self._bell)

    def _serve(self, patience: float | None) -> None:
        ready = self._selector.select(patience)
        self._asleep = False
        for key, events in ready:
            if key.data is None:
                os.eventfd_read(self._bell)
            else:
                key.data(events)
        self._run_calls()
        self._run_timers()

    def _return(self) -> None:
        """Let the thread of `run` have the selector again, and wake it if it would sleep too long."""
        self._asleep = True
        if self._calls or self._stopped or self._next() < self._due:
            self.wake()
        self._outer.register(self._selector.fileno(), select.EPOLLIN)

    def _next(self) -> float:
        """The time at which the next timer is due."""
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def _patience(self) -> float | None:
        due = self._next()
        return None if due == math.inf else min(max(0.0, due - time.monotonic()), _LONGEST_SECONDS)

    def _compact(self) -> None:
        """Throw out what was cancelled: receiving with generous timeouts leaves a timer behind for every message."""
        if len(self._timers) >= _COMPACT_AT:
            self._timers[:] = [entry for entry in self._timers if entry[2].call is not None]
            heapq.heapify(self._timers)

    def _run_calls(self) -> None:
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic():
            timer = heapq.heappop(self._timers)[2]
            if timer.call is not None:
                timer.call()
