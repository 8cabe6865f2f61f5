"""The servers that a joined process runs beside its program, each in a child of its own."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from polyrhythm.errors import PolyrhythmError, RunError, WorkerFailed
from polyrhythm.kernel.events import AnyEvent, Recorder
from polyrhythm.kernel.message import Message
from polyrhythm.processes.runtime import failure
from polyrhythm.processes.spawn import fork_client
from polyrhythm.processes.transport.addresses import Address
from polyrhythm.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.processes.transport.loop import READ, Loop
from polyrhythm.processes.transport.wire import Tally, packed


class Supervisor:
    """Children followed on the loop of the process that has them; `on_failure` is called there when one failed."""

    def __init__(self, loop: Loop, record: Recorder, on_failure: Callable[[PolyrhythmError], None]) -> None:
        self.addresses: dict[str, Address] = {}
        self.ended: set[str] = set()
        self.dead: set[str] = set()
        self.totals: dict[str, tuple[int, int]] = {}
        self._loop = loop
        self._record = record
        self._on_failure = on_failure
        self._links: dict[str, FrameLink] = {}
        self._decoder = msgspec.msgpack.Decoder(list[AnyEvent])
        self._stack = ExitStack()
        self._zygote: fork_client.ForkClient | None = None

    def start(self, names: list[str], parcel: int) -> None:
        """Start a child for each of `names`, and close `parcel`; before the loop runs, or in its thread."""
        try:
            if names:
                self._fork(names, parcel)
        finally:
            os.close(parcel)

    def know(self, table: dict[str, Address], origin: float) -> None:
        """Tell the children where everyone is."""
        self._tell(Message("table", (origin,), tensors=packed(msgspec.json.encode(table))))

    def release(self) -> None:
        """Let the children go, which have all ended."""
        self._tell(Message("release"))

    def close(self) -> None:
        """Kill what is left and give everything back; in the loop's thread."""
        for link in self._links.values():
            link.close()
        if self._zygote is not None:
            self._loop.forget(self._zygote.socket)
            self._zygote = None
        self._stack.close()

    @property
    def up(self) -> bool:
        """Whether all have told their addresses."""
        return len(self.addresses) == len(self._links)

    @property
    def over(self) -> bool:
        """Whether all have ended well."""
        return self.ended == set(self._links)

    @property
    def gone(self) -> bool:
        """Whether no process is left."""
        return self.dead == set(self._links)

    def _fork(self, names: list[str], parcel: int) -> None:
        self._zygote = zygote = self._stack.enter_context(fork_client.borrow())
        self._loop.watch(zygote.socket, READ, lambda _: self._hear_zygote())
        preload = [name for name in list(sys.modules) if name.startswith("polyrhythm.")]
        for name in names:
            ours, theirs = socket.socketpair()
            self._links[name] = link = FrameLink(self._loop, ours, Wiring(), Tally())
            link.on_frame = lambda _, frame, it=name: self._hear(it, frame.message)  # type: ignore[misc]
            with theirs:
                zygote.fork(name, "cpu", theirs, parcel, preload)

    def _tell(self, message: Message) -> None:
        for link in self._links.values():
            link.control(message)

    def _hear(self, name: str, message: Message) -> None:
        match message.topic:
            case "address":
                self.addresses[name] = msgspec.json.decode(message.text, type=Address)
            case "events":
                for event in self._decoder.decode(message.tensors[0].numpy().data):
                    self._record(event)
            case "ended":
                self.totals[name] = (int(message.numbers[0]), int(message.numbers[1]))
                self.ended.add(name)
            case "failed":
                self._on_failure(failure.rebuild(message))

    def _hear_zygote(self) -> None:
        assert self._zygote is not None
        try:
            death = self._zygote.hear()
        except RunError as problem:
            self._loop.forget(self._zygote.socket)
            self._zygote = None
            self._on_failure(problem)
            return
        self._links[death.name].drain()
        self.dead.add(death.name)
        if death.name not in self.ended:
            self._on_failure(WorkerFailed(death.name, failure.exit_reason(death.status)))
