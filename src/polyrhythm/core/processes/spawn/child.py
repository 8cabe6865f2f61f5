"""A worker's or a server's own process, from the fork to its end.

It has a control link to its launcher, and a socket for its beats. To the launcher go `address`, `events`, the result (a plain frame),
`ended`, `failed`, `condition`, `agree`, `held`, `stopped`, `signalled`, `moment`. From the launcher come `table`, `lost`, `ended` (of
others), `agreed`, `release`, `hold`, `stop`, `end`, `inject`, `resume`; topics `crew/…` are those of `NodeCrew`. The end of that link is
the end of the launcher, and so of this process.

SIGTERM, SIGHUP and SIGQUIT, which batch systems send to all processes of a job, are the launcher's to decide on: whether the run is
asked to stop, or only this process is to end.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from types import FrameType
from typing import Any

import msgspec
import torch

from polyrhythm.core import rng
from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import AnyEvent, Ended, Recorder, Started
from polyrhythm.core.kernel.job import WorkerContext
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.stopping import ENDING
from polyrhythm.core.processes.runtime import agreement, failure, node_crew
from polyrhythm.core.processes.runtime.actor_faults import MOMENT, ActorFaults
from polyrhythm.core.processes.runtime.beat_sender import BeatSender, BeatTarget
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.node_crew import NodeCrew
from polyrhythm.core.processes.runtime.reporter import StatusReporter
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.runtime.status import ActorStatus
from polyrhythm.core.processes.spawn.child_sums import ChildSums
from polyrhythm.core.processes.spawn.job_spec import JobSpec, unpack
from polyrhythm.core.processes.spawn.step_counts import StepCounts
from polyrhythm.core.processes.system.allocator import keep_memory
from polyrhythm.core.processes.transport.addresses import Address, listen_everywhere, listen_locally
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.plain import Plain
from polyrhythm.core.processes.transport.wire import CONTROL, Frame, Tally, packed
from polyrhythm.errors import TamperedError, WireError

Program = Callable[[WorkerContext], Message | None]
Service = Callable[[Port, Recorder], Coroutine[Effect[Any], Any, None]]
Work = tuple[Program, Service]

_SWITCH_SECONDS = 0.0005
_GATHERING_SECONDS = 0.02
_LAST_SECONDS = 10.0
_REPORT_SECONDS = 5.0
_STORE_SECONDS = 60.0


def run(channels: tuple[socket.socket, socket.socket], name: str, device: str, descriptor: int) -> int:
    """Be the actor `name` of the job in `descriptor`; the exit code. `channels` are the sockets of its control link and of its beats."""
    spec, work = unpack(descriptor)
    os.close(descriptor)
    _settle(spec)
    rng.seed_everything(spec.seed, name)
    child = Child(channels, Role(name, spec.secret, spec.seed, device), spec)
    return child.run(work)


def _settle(spec: JobSpec) -> None:
    """Use the launcher's environment variables, folder, module path and arguments."""
    os.environb.clear()
    os.environb.update(spec.environment)
    os.chdir(spec.directory)
    sys.path[:] = map(os.fsdecode, spec.path)
    sys.argv[:] = map(os.fsdecode, spec.arguments)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # the loop's thread must not wait long for a program that computes in Python
    sys.setswitchinterval(_SWITCH_SECONDS)
    torch.set_num_threads(spec.threads)
    keep_memory()


class Child:
    """The process's side of its control link, and its node."""

    def __init__(self, channels: tuple[socket.socket, socket.socket], role: Role, spec: JobSpec) -> None:
        control, beats = channels
        self._name = role.name
        self._spec = spec
        listeners = listen_everywhere(spec.ip, spec.host) if spec.ip else listen_locally()
        self._address = listeners.address
        self._node = Node(role, spec.wiring, listeners, self._record)
        self._beats = BeatSender(self._node.steps)
        self._beats.add(BeatTarget(beats))
        self._node.on_failure = self._fail
        self._node.on_connection_lost = self._connection_lost
        self._node.on_control = self._receive_from_peer
        self._events: deque[AnyEvent] = deque()
        self._flushing = False
        self._encoder = msgspec.msgpack.Encoder()
        self._launcher = FrameLink(self._node.loop, Plain(control), Wiring(), Tally())
        self._launcher.on_frame = self._receive_control
        self._launcher.on_close = lambda *_: os.killpg(0, signal.SIGKILL)
        self._started, self._released = Completion(), Completion()
        self._faults = ActorFaults(role.name, self._node, spec.faults, spec.fault_seed, self._ask) if spec.faults else None
        self._node.stop_point.on_stop = self._stop
        self._node.stop_point.on_end = lambda: self._in_loop(lambda: self._send("stopped", (0.0,)))
        self._node.agreement.on_request = self._agree
        self._node.on_compare = self._compare
        self._sums = ChildSums(self._node, role.name, spec)
        self._context = NodeContext(self._node)
        self._crew: Callable[[Message], None] = partial(node_crew.follow, self._node)
        if spec.changes and is_worker(role.name):
            crew = self._context.crew = NodeCrew(self._node, self._context, self._launcher.send_control, self._sums.enter)
            self._crew = crew.receive
            if spec.counts:
                StepCounts.open(spec.counts, spec.places).follow(self._context, role.name)

    def run(self, work: Callable[[], Work]) -> int:
        """Run the actor from its start to its end; the process's exit code."""
        self._node.start()
        try:
            self._report_signals()
            program, service = work()
            self._in_loop(lambda: self._send("address", (float(os.getpid()),), msgspec.json.encode(self._address).decode()))
            self._started.wait()
            self._record(Started(self._node.port.now(), self._name))
            works, context = is_worker(self._name), self._context
            if self._faults is not None:
                self._faults.follow(context)
            self._node.steps.compute() if works else self._node.steps.wait()
            result = program(context) if works else self._node.complete(service(self._node.port, self._node.record))
            ended = self._node.port.now()
        except BaseException as problem:
            self._in_loop(partial(self._fail, problem))
            time.sleep(_LAST_SECONDS)  # the launcher kills us once it has read why
            return 1
        self._finish(result, ended)
        self._released.wait()
        return 0

    def _finish(self, result: Message | None, ended: float) -> None:
        """Announce the end to the others, then to the launcher."""
        self._node.steps.wait()
        if self._faults is not None:
            self._faults.settle()
        announced = Completion()
        self._in_loop(lambda: self._node.finish(lambda: announced.finish(None, None)))
        announced.wait()
        peers = self._node.peers
        for carried in peers.carried(self._node.port.now()):
            self._record(carried)
        self._record(Ended(self._node.port.now(), self._name, peers.bytes_sent, peers.messages_sent))

        def send() -> None:
            self._flush()
            if result is not None:
                self._launcher.send(result)
            self._send("ended", (peers.bytes_sent, peers.messages_sent, ended))

        self._in_loop(send)

    def _report_signals(self) -> None:
        process = os.getpid()

        def report(number: int, frame: FrameType | None) -> None:
            if os.getpid() == process:
                self._in_loop(lambda: self._send("signalled", (float(number),)))
            else:  # a fork of the program's own, which its library may end so
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        for number in ENDING:
            signal.signal(number, report)

    def _stop(self, kept: bool) -> None:
        """The program has come to where the run stops: the launcher ends this process, and has what it recorded until then."""

        def send() -> None:
            self._flush()
            self._send("stopped", (float(kept),))

        self._in_loop(send)
        Completion().wait()

    def _in_loop(self, call: Callable[[], None]) -> None:
        self._node.loop.call(call)

    def _send(self, topic: str, numbers: tuple[float, ...] = (), text: str = "", data: bytes = b"") -> None:
        self._launcher.send_control(Message(topic, numbers, text, packed(data) if data else ()))

    def _record(self, event: AnyEvent) -> None:
        self._events.append(event)
        if not self._flushing:
            self._flushing = True
            # waking the loop for every event would cost the program a switch of threads each time
            self._in_loop(self._flush_soon)

    def _flush_soon(self) -> None:
        self._node.loop.after(_GATHERING_SECONDS, self._flush)

    def _flush(self) -> None:
        self._flushing = False  # before looking: events that come in meanwhile start another flush
        events = [self._events.popleft() for _ in range(len(self._events))]
        if events:
            peers = self._node.peers
            self._send("events", (peers.bytes_sent, peers.messages_sent), data=self._encoder.encode(events))

    def _fail(self, error: BaseException) -> None:
        self._flush()
        self._launcher.send_control(failure.failure_message(self._name, error))

    def _connection_lost(self, name: str, why: Exception | None) -> None:
        """A peer that died is reported by the launcher; one that sends malformed frames, or whose connection ends while it lives, by us."""
        if isinstance(why, TamperedError):
            self._node.fail(why)
        elif name in self._spec.expendable:
            self._node.lose(name)
        elif isinstance(why, WireError):
            self._node.fail(WireError(f"{self._name} received a malformed message from {name}: {why}"))
        else:
            self._node.loop.after(_REPORT_SECONDS, lambda: self._node.still_broken(name))

    def _ask(self, moment: str) -> None:
        """Have the launcher inject what waits for this moment, after all that was recorded until then."""
        self._flush()
        self._send(MOMENT, text=moment)

    def _receive_control(self, link: FrameLink, frame: Frame) -> None:
        message = frame.message
        assert frame.flags & CONTROL
        match message.topic:
            case "table":
                self._learn(message)
            case "lost":
                self._node.lose(message.text)
            case "ended":
                self._node.peer_ended(message.text)
            case "agreed" if message.numbers[0] == self._node.actor.epoch:
                self._node.agreement.settle(message.text)
            case "release":
                self._released.finish(None, None)
            case "inject" | "resume" if self._faults is not None:
                self._faults.receive(message)
            case "hold":
                self._send("held", (float(self._node.stop_point.hold()),))
            case "stop":
                self._node.stop_point.settle(int(message.numbers[0]))
            case "end":
                os._exit(128 + int(message.numbers[0]))
            case topic if topic.startswith(node_crew.CREW):
                self._crew(message)

    def _learn(self, message: Message) -> None:
        """Learn where everyone is: at the beginning of the run, and when somebody joins it."""
        data = message.tensors[0].numpy().tobytes()
        table = msgspec.json.decode(data, type=dict[str, Address])
        self._node.begin_run(table, message.numbers[0])
        if not self._started.finished:
            self._begin(table)

    def _begin(self, table: dict[str, Address]) -> None:
        self._node.reducers = self._sums.begin()
        if self._spec.ip:  # without a launcher, a connection is how the others learn of an end
            self._node.peers.connect(other for other in table if other != self._name)
        StatusReporter(self._node, self._spec.thresholds, self._send_status).look()
        if not self._spec.ip:  # a joined worker watches its servers by their statuses
            self._beats.start()
        self._started.finish(None, None)

    def _agree(self, facts: Facts, remedy: str) -> None:
        self._launcher.send_control(agreement.agreement_request(facts, remedy, self._node.actor.epoch))

    def _compare(self, comparison: Comparison) -> None:
        self._launcher.send_control(agreement.comparison_message(comparison, self._node.actor.epoch))

    def _send_status(self, status: ActorStatus) -> None:
        message = status.message()
        if self._spec.ip:
            for name in self._node.peers.reached:
                self._node.peers.send_control(name, message)
        else:
            self._launcher.send_control(message)

    def _receive_from_peer(self, name: str, message: Message) -> None:
        if message.topic == "failed":
            self._node.fail(failure.rebuild(message))
