"""A worker's connection to the store of its rendezvous, which it seeks until it is found or its time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.store.attempt import StoreAttempt, StoreTarget
from polyrhythm.core.processes.store.dialogue import message, payload_of
from polyrhythm.core.processes.store.dismissals import Absent, Dismissed, GivenUp, Silent, Unexpected, Unproven
from polyrhythm.core.processes.store.search import StoreLookup
from polyrhythm.core.processes.transport.frame_link import FrameLink
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.wire import Frame
from polyrhythm.errors import RunError

_KEYS_AT_ONCE = 256
_SENDING_SECONDS = 2.0

Find = Callable[[], StoreTarget | None]
"""Returns the address of the store, if that is known by now."""


class StoreClient:
    """The worker `name` at the store that `find` leads to, which is called at first and after each attempt in vain.

    Raises RunError after `seconds` without success, with whom it could not reach and why, and at once where the store refuses it. All
    methods may be called by several threads.
    """

    def __init__(self, name: str, find: Find, seconds: float, where: str) -> None:
        self._name = name
        self._where = where
        self._requests: dict[int, Completion] = {}
        self._numbers = count()
        self._gone: RunError | None = None
        self._loop = EventLoop()
        self._thread = threading.Thread(target=self._serve, name="polyrhythm-store-client", daemon=True)
        self._thread.start()
        self._closed = False
        try:
            self.target, self._link = self._seek(find, StoreLookup(where, seconds))
        except BaseException:
            self._stop()
            raise
        self._loop.call(self._begin)

    def set(self, key: str, value: bytes) -> None:
        """Set `key`; does not wait for the store."""
        self._loop.call(lambda: self._link.send_control(message("set", key, payload=value)))

    def get(self, keys: Sequence[str], seconds: float) -> list[bytes]:
        """The values of `keys`, once all are set. Raises TimeoutError after `seconds`; the error with which the rendezvous has failed."""
        found: list[bytes] = []
        deadline = time.monotonic() + seconds
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            found += self._request("get", "\n".join(some), deadline - time.monotonic())
        return found

    def add(self, key: str, amount: int, seconds: float) -> int:
        """Add to the number under `key`, 0 if it is not set; the sum."""
        return int(self._request("add", key, seconds, amount)[0])

    def check(self, keys: Sequence[str], seconds: float) -> list[bool]:
        """True for each of `keys` that is set."""
        return [bool(each) for each in self._request("check", "\n".join(keys), seconds)]

    def fail(self, error: BaseException) -> None:
        """Let the others know that `error` ends this worker, and close."""
        self.close(failure.failure_message(self._name, error))

    def close(self, last: Message | None = None) -> None:
        """Leave the store, with this last message."""
        if self._closed:
            return
        self._closed = True
        sent = threading.Event()

        def leave() -> None:
            self._loop.after(_SENDING_SECONDS, sent.set)
            if not self._link.closed:
                self._link.send_control(last or message("done"))
            self._link.when_drained(sent.set)

        self._loop.call(leave)
        sent.wait()
        self._stop()

    def _seek(self, find: Find, search: StoreLookup) -> tuple[StoreTarget, FrameLink]:
        while True:
            target = find()
            try:
                if target is not None:
                    return target, StoreAttempt(self._loop, self._name, target, search.patience).wait()
                search.note(Absent("worker/0 has not announced where it keeps it: it has not come, or not as far as this"))
            except (Unexpected, GivenUp) as final:
                search.refuse(final)
            except Unproven as unproven:
                search.note_unproven(unproven)
            except Silent as silent:
                search.note_silent(silent)
            except Dismissed as dismissed:
                search.note(dismissed)
            search.pause()

    def _begin(self) -> None:
        self._link.on_frame = self._take
        self._link.on_close = lambda _, why: self._lose(why)
        if self._link.closed:
            self._lose(None)

    def _request(self, topic: str, text: str, seconds: float, *numbers: int) -> list[bytes]:
        number, completion = next(self._numbers), Completion()

        def ask() -> None:
            if self._gone is not None:
                completion.finish(None, self._gone)
                return
            self._requests[number] = completion
            self._loop.after(seconds, lambda: self._finish(number, None, TimeoutError(f"{self._where} has not answered")))
            self._link.send_control(message(topic, text, (number, *numbers)))

        self._loop.call(ask)
        values: list[bytes] = completion.wait()
        return values

    def _take(self, link: FrameLink, frame: Frame) -> None:
        given = frame.message
        number = int(given.numbers[0]) if given.numbers else -1
        match given.topic:
            case "reply":
                self._finish(number, msgspec.msgpack.decode(payload_of(given), type=list[bytes]), None)
            case "failed":
                self._finish(number, None, failure.rebuild(given))

    def _finish(self, number: int, values: list[bytes] | None, error: BaseException | None) -> None:
        completion = self._requests.pop(number, None)
        if completion is not None:
            completion.finish(values, error)

    def _lose(self, why: Exception | None) -> None:
        reason = f" ({why})" if why else ""
        self._gone = RunError(f"The connection with {self._where} was lost{reason}: the process that kept it has ended, or was cut off.")
        for number in list(self._requests):
            self._finish(number, None, self._gone)

    def _serve(self) -> None:
        while True:
            try:
                return self._loop.run()
            except Exception as problem:  # those who wait are notified, and the loop continues for later requests
                self._lose(problem)

    def _stop(self) -> None:
        self._loop.call(self._loop.stop)
        self._thread.join()
        link = getattr(self, "_link", None)
        if link is not None:
            link.close()
        self._loop.close()
