"""The launcher's side of one run: starts the actors, follows them, and gives the verdict."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from polyrhythm.errors import PolyrhythmError, RunError, WireError, WorkerFailed
from polyrhythm.kernel.events import AnyEvent, Evaluated, Faulted, Recorder, Reported, Stepped
from polyrhythm.kernel.job import Ending, Job
from polyrhythm.kernel.message import Message
from polyrhythm.processes.runtime import failure
from polyrhythm.processes.runtime.agreement import AgreementCollector
from polyrhythm.processes.runtime.stall_detection import Patience, StallDetector, report
from polyrhythm.processes.runtime.status import ActorStatus
from polyrhythm.processes.spawn.fork_client import ForkClient
from polyrhythm.processes.transport.addresses import Address
from polyrhythm.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.processes.transport.loop import READ, Loop
from polyrhythm.processes.transport.wire import CONTROL, Frame, Tally, packed

_CUT_OFF_SECONDS = 1.0
_LOOK_SECONDS = 1.0
_RELEASE_SECONDS = 10.0
"""So long the processes of a run that is over may take to go."""


@dataclass(slots=True)
class Member:
    """What the launcher knows of an actor."""

    name: str
    link: FrameLink
    address: Address | None = None
    ended: float | None = None
    lost: bool = False
    dead: bool = False
    bytes_sent: int = 0
    messages_sent: int = 0
    result: Message | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more is expected of it."""
        return self.lost or self.ended is not None


@dataclass(slots=True)
class LaunchedRun:
    """One run of `job`; `execute` once."""

    job: Job
    record: Recorder
    zygote: ForkClient
    startup: float
    patience: Patience
    _members: dict[str, Member] = field(default_factory=dict)
    _loop: Loop = field(default_factory=Loop)
    _origin: float = 0.0
    _begun: bool = False
    _verdict: PolyrhythmError | None = None
    _lost: list[str] = field(default_factory=list)
    _ballot: AgreementCollector = field(default_factory=AgreementCollector)
    _stalls: StallDetector = field(init=False)
    _decoder: msgspec.msgpack.Decoder[list[AnyEvent]] = field(default_factory=lambda: msgspec.msgpack.Decoder(list[AnyEvent]))

    def __post_init__(self) -> None:
        self._stalls = StallDetector(self.patience)

    def execute(self, parcel: int, devices: dict[str, str], preload: list[str]) -> Ending:
        """Start an actor for each of `devices` and see the run to its end. Closes `parcel`."""
        try:
            self._loop.watch(self.zygote.socket, READ, lambda _: self._hear_zygote())
            try:
                self._start(parcel, devices, preload)
            finally:
                os.close(parcel)
            self._loop.after(self.startup, self._check_startup)
            self._loop.run()
            if self._verdict is not None:
                with suppress(RunError, OSError):  # a zygote that does not answer must not hide why the run failed
                    self.zygote.clear()
                self._drain()
                raise self._verdict
            return self._ending()
        finally:
            for member in self._members.values():
                member.link.close()
            self._loop.close()

    def _start(self, parcel: int, devices: dict[str, str], preload: list[str]) -> None:
        preload = [*preload, *(name for name in list(sys.modules) if name.startswith("polyrhythm."))]
        for name, device in devices.items():
            ours, theirs = socket.socketpair()
            link = FrameLink(self._loop, ours, Wiring(), Tally())
            member = self._members[name] = Member(name, link)
            link.on_frame = lambda _, frame, it=member: self._hear(it, frame)  # type: ignore[misc]
            link.on_close = lambda _, why, it=member: self._cut_off(it, why)  # type: ignore[misc]
            with theirs:
                self.zygote.fork(name, device, theirs, parcel, preload)

    # What comes from the actors

    def _hear(self, member: Member, frame: Frame) -> None:
        message = frame.message
        if not frame.flags & CONTROL:
            member.result = message
            return
        match message.topic:
            case "address":
                member.address = msgspec.json.decode(message.text, type=Address)
                self._begin()
            case "events":
                self._take_events(member, message)
            case "agree":
                self._ballot.hear(member.name, message)
                self._check_agreement()
            case "condition":
                self._stalls.hear(member.name, msgspec.json.decode(message.text, type=ActorStatus), time.monotonic())
                self._check_standstill()
            case "ended":
                self._end(member, message)
            case "failed":
                self._judge(failure.rebuild(message))

    def _begin(self) -> None:
        """When all are up, tell everyone where all the others are: the run begins."""
        table = {member.name: member.address for member in self._members.values() if member.address is not None}
        if len(table) == len(self._members):
            self._begun, self._origin = True, time.monotonic()
            self._stalls.begin(self._members, self._origin)
            self._look()
            self._tell_all(Message("table", (self._origin,), tensors=packed(msgspec.json.encode(table))))

    def _take_events(self, member: Member, message: Message) -> None:
        member.bytes_sent, member.messages_sent = map(int, message.numbers)
        total = sum(other.bytes_sent for other in self._members.values())
        for event in self._decoder.decode(message.tensors[0].numpy().data):
            if isinstance(event, Stepped):
                self._stalls.note_step(event.actor, event.clock, time.monotonic())
            elif isinstance(event, Reported):
                event = msgspec.structs.replace(event, bytes_sent=total)
            elif isinstance(event, Evaluated):  # of the past, when its worker had sent a part of what it has sent now
                event = msgspec.structs.replace(event, bytes_sent=round(event.bytes_sent / max(member.bytes_sent, 1) * total))
            self.record(event)

    def _end(self, member: Member, message: Message) -> None:
        member.bytes_sent, member.messages_sent = map(int, message.numbers[:2])
        member.ended = message.numbers[2]
        self._stalls.forget(member.name, time.monotonic())
        self._tell_all(Message("ended", text=member.name))
        self._check_end()

    def _tell_all(self, message: Message) -> None:
        for member in self._members.values():
            if not member.dead:
                member.link.control(message)

    # What becomes of them

    def _hear_zygote(self) -> None:
        death = self.zygote.hear()
        member = self._members[death.name]
        member.link.drain()  # it may have said why
        member.dead = True
        self._lose(member, failure.exit_reason(death.status))
        if self._over() and all(other.dead for other in self._members.values()):
            self._loop.stop()

    def _cut_off(self, member: Member, why: Exception | None) -> None:
        if isinstance(why, WireError):
            self._judge(WireError(f"The launcher cannot understand {member.name}: {why}"))
        elif not member.dead:
            # mostly a death of which the zygote is about to tell
            self._loop.after(_CUT_OFF_SECONDS, lambda: self._lose(member, "it closed its connection to the launcher"))

    def _lose(self, member: Member, why: str) -> None:
        """An actor is gone that had not ended: the end of the run, or news for the others."""
        if self._verdict is not None or member.over:
            return
        member.lost = True
        if not self._begun or self.job.essential(member.name):
            self._judge(WorkerFailed(member.name, why))
            return
        self._lost.append(member.name)
        self._stalls.forget(member.name, time.monotonic())
        self.record(Faulted(time.monotonic() - self._origin, member.name, why))
        if not any(other.name.startswith("worker/") and not other.lost for other in self._members.values()):
            self._judge(WorkerFailed(member.name, f"{why}, and no worker is left"))
            return
        self._tell_all(Message("lost", text=member.name))
        self._check_agreement()
        self._check_end()

    def _judge(self, verdict: PolyrhythmError) -> None:
        if self._verdict is None:
            self._verdict = verdict
        self._loop.stop()

    def _over(self) -> bool:
        return all(member.over for member in self._members.values())

    def _check_end(self) -> None:
        if self._over():
            self._tell_all(Message("release"))
            self._loop.after(_RELEASE_SECONDS, self._loop.stop)  # who does not go, or of whose end nobody tells, is killed

    def _check_agreement(self) -> None:
        workers = [member.name for member in self._members.values() if member.name.startswith("worker/") and not member.lost]
        if (difference := self._ballot.settle(workers)) is not None:
            self._tell_all(Message("agreed", text=difference))

    def _check_standstill(self) -> None:
        deadlock = self._stalls.deadlock(time.monotonic())
        if deadlock is not None:
            self._judge(deadlock)

    def _look(self) -> None:
        """See whether somebody stands still while others wait for it."""
        now = time.monotonic()
        stall, verdict = self._stalls.look(now), self._stalls.verdict(now)
        if stall is not None:
            report(stall)
            self.record(Faulted(now - self._origin, stall.culprits[0], f"stands still: {stall.said}"))
        if verdict is not None:
            self._judge(verdict)
        self._loop.after(min(_LOOK_SECONDS, self.patience.notice / 4), self._look)

    def _check_startup(self) -> None:
        if not self._begun:
            late = ", ".join(member.name for member in self._members.values() if member.address is None)
            self._judge(RunError(f"{late} did not come up in {self.startup:g} seconds; Processes(startup=...) allows more."))

    def _drain(self) -> None:
        """Record what the actors had still said before they were killed."""
        for member in self._members.values():
            member.link.drain()

    def _ending(self) -> Ending:
        members = self._members.values()
        return Ending(
            {member.name: member.result for member in members if member.name.startswith("worker/") and not member.lost},
            sum(member.bytes_sent for member in members),
            sum(member.messages_sent for member in members),
            max((member.ended for member in members if member.ended is not None), default=0.0),
            list(self._lost),
        )
