"""A key-value store for the rendezvous of a run, in a separate thread: only callers that have its secret can read or set anything."""

from __future__ import annotations

import math
import socket
import threading

from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.processes.store.dialogue import PUBLIC, STORE, WIRING, is_worker, message
from polyrhythm.core.processes.store.store_round import StoreRound
from polyrhythm.core.processes.transport.connector import ConnectionFactory
from polyrhythm.core.processes.transport.frame_link import FrameLink
from polyrhythm.core.processes.transport.handshake import Credentials
from polyrhythm.core.processes.transport.loop import Callback, EventLoop
from polyrhythm.core.processes.transport.reception import Reception
from polyrhythm.core.processes.transport.wire import Tally
from polyrhythm.errors import CompositionError, PolyrhythmError, WireError, sentence

_BACKLOG = 4096


class StoreServer:
    """A store for runs of `workers` processes, at `ip` and that port (0: any free one), for callers with `secret` (without one, for all).

    A rendezvous is a round: a new one begins when all workers have come to the last, or one of them has failed, so that processes can join
    again, and some of them be new. There are at most `rounds` of them. Raises OSError where the address cannot be listened at.
    """

    def __init__(self, ip: str, workers: int, secret: bytes = PUBLIC, port: int = 0, rounds: float = math.inf) -> None:
        if workers < 1:
            raise CompositionError(f"A store for {workers} workers is of no use: give 1 or more.")
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        listener = socket.create_server((ip, port), family=family, backlog=_BACKLOG)
        self.address: tuple[str, int] = (ip, listener.getsockname()[1])
        self.tally = Tally()
        self._workers = workers
        self._rounds_left = rounds - 1
        self._rounds = [StoreRound(workers)]
        self._loop = EventLoop()
        self._factory = ConnectionFactory(self._loop, Credentials(STORE, secret), WIRING, self.tally)
        self._reception = Reception(self._factory, [listener], self._admit, is_worker)
        self._listening = True
        self._closed = False
        self._given_up = ""
        self._thread = threading.Thread(target=self._serve, name="polyrhythm-store", daemon=True)
        self._thread.start()

    def give_up(self, why: PolyrhythmError) -> None:
        """End every wait in `why`; later callers are notified of it and sent away."""

        def fail() -> None:
            self._given_up = sentence(why)
            self._rounds[-1].fail(why)

        self._loop.call(fail)

    def stop_listening(self) -> None:
        """Receive nobody new from now on."""
        done = threading.Event()
        self._loop.call(lambda: self._stop_listening(done.set))
        done.wait()

    def close(self, seconds: float = 0.0) -> None:
        """Give everything back, after at most so many `seconds` in which those who are connected can read what they still need."""
        if self._closed:
            return
        self._closed = True
        empty = threading.Event()
        self._loop.call(lambda: self._stop_listening(lambda: self._when_empty(empty.set)))
        empty.wait(seconds)
        self._loop.call(self._loop.stop)
        self._thread.join()
        for each in self._rounds:
            each.close()
        self._loop.close()

    def __enter__(self) -> StoreServer:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            try:
                return self._loop.run()
            except Exception as problem:  # whom it hit is not known: those of this round are notified, and the next may go well
                self._rounds[-1].fail(problem)

    def _stop_listening(self, then: Callback) -> None:
        if self._listening:
            self._listening = False
            self._reception.close()
        then()

    def _when_empty(self, call: Callback) -> None:
        left = len(self._rounds)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                call()

        for each in self._rounds:
            each.when_empty(one_less)

    def _admit(self, name: str, lane: int, link: FrameLink) -> None:
        if lane:
            raise WireError(f"{name} opened lane {lane}, and a store has none.")
        if rank_of(name) >= self._workers:
            _dismiss(link, "refused", f"{name} is not one of the {self._workers} workers that are expected there")
            return
        if self._given_up:
            _dismiss(link, "over", self._given_up)
            return
        current = self._rounds[-1]
        if current.over and self._rounds_left > 0:
            self._rounds_left -= 1
            current = StoreRound(self._workers)
            self._rounds = [each for each in self._rounds if each.present] + [current]
        keeper = self._rounds_left == 0 and rank_of(name) == 0  # who keeps a store for one round learns also what failed before it came
        if current.over and (current.has(name) or not keeper):
            _dismiss(link, "again", "all workers of an earlier run have come there, or one of them has failed")
        elif current.has(name):
            _dismiss(link, "again", f"{name} is there already")
        else:
            current.join(name, link)


def _dismiss(link: FrameLink, topic: str, why: str) -> None:
    """Tell an authenticated caller why it is not received."""
    link.on_frame = lambda it, _: it.close()
    link.send_control(message(topic, why))
    link.when_drained(link.close)  # nothing lies unread, for a caller waits for its welcome; so this reaches it
