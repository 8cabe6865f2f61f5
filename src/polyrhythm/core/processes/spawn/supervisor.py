"""Follows the processes that the fork server starts for this one, over a control link to each."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.runtime.beat import NBYTES, Beat, decode
from polyrhythm.core.processes.spawn.fork_client import ForkClient
from polyrhythm.core.processes.spawn.fork_server import Fork
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.loop import READ, EventLoop
from polyrhythm.core.processes.transport.plain import Plain
from polyrhythm.core.processes.transport.wire import CONTROL, Frame, Tally, packed
from polyrhythm.errors import PolyrhythmError, RunError, WireError

_CUT_OFF_SECONDS = 1.0


@dataclass(slots=True)
class SupervisedChild:
    """The state of a child: `ended` is when its actor ended well, in seconds of the run; `dead` is true when its process has ended."""

    name: str
    link: FrameLink
    address: Address | None = None
    ended: float | None = None
    dead: bool = False
    bytes_sent: int = 0
    messages_sent: int = 0
    result: Message | None = None
    pid: int = 0
    beats: socket.socket | None = None

    def next_beat(self) -> Beat | None:
        """The next of the beats that have come; None if that were all."""
        try:
            packet = self.beats.recv(NBYTES, socket.MSG_DONTWAIT) if self.beats is not None else b""
        except OSError:  # nothing is there, or its process ended with beats unread
            return None
        return decode(packet)[1] if packet else None


class SupervisorObserver(Protocol):
    """An observer that is notified of what becomes of the children, in the loop's thread."""

    def came_up(self, child: SupervisedChild) -> None:
        """Its address is known."""

    def recorded(self, child: SupervisedChild, events: Iterable[AnyEvent]) -> None:
        """Its actor has recorded `events`."""

    def received(self, child: SupervisedChild, message: Message) -> None:
        """It has sent something else."""

    def ended(self, child: SupervisedChild) -> None:
        """Its actor has ended well; its totals are known."""

    def lost(self, child: SupervisedChild, why: str) -> None:
        """Its process or its link has ended; called also after `ended`, and maybe twice."""

    def raised(self, child: SupervisedChild, error: PolyrhythmError) -> None:
        """It reports an error, and waits for its end."""

    def failed(self, error: PolyrhythmError) -> None:
        """A child cannot be understood, or cannot be started; or the fork server has failed."""


class Supervisor:
    """Children on `loop`, of which `observer` is notified."""

    def __init__(self, loop: EventLoop, observer: SupervisorObserver) -> None:
        self.children: dict[str, SupervisedChild] = {}
        self._loop = loop
        self._observer = observer
        self._client: ForkClient | None = None
        self._closed = False
        self._devices: dict[str, str] = {}
        self._modules: list[str] = []
        self._kept = -1
        self._decoder = msgspec.msgpack.Decoder(list[AnyEvent])

    def start(self, client: ForkClient, devices: Mapping[str, str], job_spec: int, preload: Iterable[str] = ()) -> None:
        """Start a child for each of `devices`, by actor, and close the descriptor `job_spec`; before the loop runs, or in its thread."""
        self._modules = [*preload, *(name for name in list(sys.modules) if name.startswith("polyrhythm."))]
        try:
            self._client = client
            self._loop.watch(client.socket, READ, lambda _: self._receive_death())
            for name, device in devices.items():
                self._fork(name, device, job_spec)
        finally:
            os.close(job_spec)

    def keep(self, devices: Mapping[str, str], job_spec: int) -> None:
        """Keep what `add` needs until `close`: the devices by actor, and the job spec."""
        self._devices, self._kept = dict(devices), os.dup(job_spec)

    def add(self, name: str, place: int) -> None:
        """Start one more worker: on the CPU, or the CUDA device of that number, as the others. Raises RunError for a failed fork server."""
        device = next(device for other, device in self._devices.items() if is_worker(other))
        self._fork(name, device if device == "cpu" else f"cuda:{place}", self._kept)

    def _fork(self, name: str, device: str, job_spec: int) -> None:
        assert self._client is not None, "a fork server that fails ends the run"
        ours, theirs = socket.socketpair()
        child = self.children[name] = SupervisedChild(name, FrameLink(self._loop, Plain(ours), Wiring(), Tally()))
        child.link.on_frame = lambda _, frame: self._receive(child, frame)
        child.link.on_close = lambda _, why: self._cut_off(child, why)
        child.beats, beats = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, beats:
            self._client.fork(Fork(name, device, self._modules), theirs, beats, job_spec)

    @property
    def table(self) -> dict[str, Address]:
        """The addresses that are known."""
        return {child.name: child.address for child in self.children.values() if child.address is not None}

    @property
    def up(self) -> bool:
        """True if all have sent their addresses."""
        return len(self.table) == len(self.children)

    @property
    def over(self) -> bool:
        """True if all have ended well."""
        return all(child.ended is not None for child in self.children.values())

    @property
    def gone(self) -> bool:
        """True if no process is left."""
        return all(child.dead for child in self.children.values())

    def begin(self, table: Mapping[str, Address], origin: float) -> None:
        """Send everyone's address to the children, and when the run began (CLOCK_MONOTONIC)."""
        self.broadcast(Message("table", (origin,), tensors=packed(msgspec.json.encode(table))))

    def release(self) -> None:
        """Let the children exit, which have all ended."""
        self.broadcast(Message("release"))

    def broadcast(self, message: Message) -> None:
        """Send `message` to all whose process lives."""
        for child in self.children.values():
            if not child.dead:
                child.link.send_control(message)

    def drain(self) -> None:
        """Take in what the children have sent so far."""
        for child in self.children.values():
            child.link.drain()

    def beats(self) -> Iterator[tuple[str, Beat]]:
        """The beats that have come since, by actor."""
        for name, child in self.children.items():
            while (beat := child.next_beat()) is not None:
                yield name, beat

    def kill(self, name: str) -> None:
        """Kill the process of `name`; it is reported as lost."""
        if self._client is not None and not self.children[name].dead:
            try:
                self._client.kill(name)
            except RunError as problem:
                self._observer.failed(problem)

    def close(self) -> None:
        """Close the links; in the loop's thread, or when it is over."""
        self._closed = True
        for child in self.children.values():
            child.link.close()
            if child.beats is not None:
                child.beats.close()
        if self._kept >= 0:
            os.close(self._kept)
            self._kept = -1
        self._forget_server()

    def _receive(self, child: SupervisedChild, frame: Frame) -> None:
        message = frame.message
        if not frame.flags & CONTROL:
            child.result = message
            return
        match message.topic:
            case "address":
                child.address, child.pid = msgspec.json.decode(message.text, type=Address), int(message.numbers[0])
                self._observer.came_up(child)
            case "events":
                child.bytes_sent, child.messages_sent = map(int, message.numbers)
                self._observer.recorded(child, self._decoder.decode(message.tensors[0].numpy().data))
            case "ended":
                child.bytes_sent, child.messages_sent = map(int, message.numbers[:2])
                child.ended = message.numbers[2]
                self._observer.ended(child)
            case "failed":
                self._observer.raised(child, failure.rebuild(message))
            case _:
                self._observer.received(child, message)

    def _receive_death(self) -> None:
        assert self._client is not None
        try:
            death = self._client.next_death()
        except RunError as problem:
            self._forget_server()
            self._observer.failed(problem)
            return
        child = self.children[death.name]
        child.link.drain()  # it may have sent why
        child.dead = True
        self._observer.lost(child, failure.exit_reason(death.status))

    def _cut_off(self, child: SupervisedChild, why: Exception | None) -> None:
        if self._closed:
            return
        if isinstance(why, WireError):
            self._observer.failed(WireError(f"The launcher received a malformed message from {child.name}: {why}"))
        elif not child.dead:
            # mostly a death that the fork server is about to report
            self._loop.after(_CUT_OFF_SECONDS, lambda: self._observer.lost(child, "it closed its connection to the launcher"))

    def _forget_server(self) -> None:
        if self._client is not None:
            self._loop.forget(self._client.socket)
            self._client = None
