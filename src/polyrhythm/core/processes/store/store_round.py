"""One rendezvous of all workers of a run: who has come, the keys that they have set, and who waits for which."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.store.dialogue import STORE, message, numbers_of, payload_of
from polyrhythm.core.processes.transport.frame_link import FrameLink
from polyrhythm.core.processes.transport.wire import CONTROL, Frame
from polyrhythm.errors import WireError, WorkerFailed

_MOST_KEY = 512
_MOST_VALUE = 1 << 20
_MOST_BYTES = 256 << 20
"""The most bytes of one round, keys and values together."""


@dataclass(slots=True)
class _Request:
    """A client's wait for `keys`; `missing` are those that nobody has set yet."""

    link: FrameLink
    number: int
    keys: list[str]
    missing: set[str]


class StoreRound:
    """The rendezvous of `workers` processes, each of which comes once. In the thread of its store's loop.

    The round fails when a member's connection ends before it was done with the store, and when a member ends in an error: what has been set
    can still be read, and every wait for something else ends in that error.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._members: dict[str, FrameLink] = {}
        self._finished: set[str] = set()
        self._values: dict[str, bytes] = {}
        self._nbytes = 0
        self._requests: list[_Request] = []
        self._failure: Message | None = None
        self._on_empty: list[Callable[[], None]] = []

    @property
    def over(self) -> bool:
        """True if nobody can come any more: all have, or one of those who came has failed."""
        return len(self._members) == self._workers or self._failure is not None

    @property
    def present(self) -> int:
        """The number of workers whose connections are still open."""
        return sum(not link.closed for link in self._members.values())

    def has(self, name: str) -> bool:
        """True if the worker `name` has come."""
        return name in self._members

    def join(self, name: str, link: FrameLink) -> None:
        """The worker `name` has come over `link`."""
        self._members[name] = link
        link.on_frame = lambda it, frame: self._take(name, it, frame)
        link.on_close = lambda _, why: self._gone(name, why)
        link.send_control(message("welcome"))

    def when_empty(self, call: Callable[[], None]) -> None:
        """Make `call` when all connections have ended."""
        if self.present:
            self._on_empty.append(call)
        else:
            call()

    def fail(self, problem: BaseException) -> None:
        """End every wait in `problem`."""
        self._fail(failure.failure_message(STORE, problem))

    def close(self) -> None:
        """Close the connections of all workers."""
        self._finished.update(self._members)
        for link in self._members.values():
            link.close()

    def _take(self, name: str, link: FrameLink, frame: Frame) -> None:
        try:
            if not frame.flags & CONTROL:
                raise WireError(f"{name} sent a message of a run to the store of its rendezvous.")
            self._perform(name, link, frame.message)
        except WireError as problem:
            link.close(problem)

    def _perform(self, name: str, link: FrameLink, given: Message) -> None:
        match given.topic:
            case "set":
                self._set(given.text, payload_of(given))
            case "get":
                (number,) = numbers_of(given, 1)
                keys = given.text.split("\n")
                self._requests.append(_Request(link, number, keys, {key for key in keys if key not in self._values}))
                self._answer()
            case "add":
                number, amount = numbers_of(given, 2)
                total = str(_number(self._values.get(given.text, b"0")) + amount).encode()
                self._set(given.text, total)
                _reply(link, number, [total])
            case "check":
                (number,) = numbers_of(given, 1)
                _reply(link, number, [b"1" if key in self._values else b"" for key in given.text.split("\n")])
            case "failed":
                self._finished.add(name)
                self._fail(given)
            case "done":
                self._finished.add(name)
            case _:
                raise WireError(f"{name} sent {given.topic[:16]!r}, which the store of a rendezvous does not know.")

    def _set(self, key: str, value: bytes) -> None:
        if len(key) > _MOST_KEY or len(value) > _MOST_VALUE:
            raise WireError(f"The key {key[:40]!r} and its value have {len(key)} and {len(value)} bytes, which is more than a store takes.")
        self._nbytes += len(value) - len(self._values[key]) if key in self._values else len(key) + len(value)
        if self._nbytes > _MOST_BYTES:
            raise WireError(f"The values in the store have {self._nbytes} bytes, which is more than it takes.")
        self._values[key] = value
        self._answer(key)

    def _answer(self, key: str | None = None) -> None:
        """Answer all requests of which nothing is missing any more, now that `key` is set."""
        for request in self._requests:
            request.missing.discard(key or "")
            if not request.missing:
                _reply(request.link, request.number, [self._values[each] for each in request.keys])
            elif self._failure is not None:
                request.link.send_control(Message("failed", (request.number,), tensors=self._failure.tensors))
        self._requests = [request for request in self._requests if request.missing and self._failure is None]

    def _gone(self, name: str, why: Exception | None) -> None:
        self._requests = [request for request in self._requests if not request.link.closed]
        if name not in self._finished:
            reason = f"its process ended, or lost its connection, while it joined the run{f' ({why})' if why else ''}"
            self._fail(failure.failure_message(name, WorkerFailed(name, reason)))
        if not self.present:
            calls, self._on_empty = self._on_empty, []
            for call in calls:
                call()

    def _fail(self, why: Message) -> None:
        if self._failure is None:
            self._failure = why
            self._answer()


def _reply(link: FrameLink, number: int, values: Iterable[bytes]) -> None:
    link.send_control(message("reply", numbers=(number,), payload=msgspec.msgpack.encode(list(values))))


def _number(value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise WireError(f"The value {value[:40]!r} is no number, so nothing can be added to it.") from None
