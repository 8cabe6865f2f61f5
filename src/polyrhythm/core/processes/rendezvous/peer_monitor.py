"""A joined worker's view of the others, where no launcher has one: the facts that must be equal, who waits for whom, who has failed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.comparison import Comparison, Comparisons
from polyrhythm.core.kernel.events import Faulted, Recorder, Suspected
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.kernel.view import ViewChange
from polyrhythm.core.processes.rendezvous import peer_watch
from polyrhythm.core.processes.rendezvous.launcher_process import launcher_process
from polyrhythm.core.processes.rendezvous.peer_watch import PeerWatch
from polyrhythm.core.processes.runtime import agreement, failure
from polyrhythm.core.processes.runtime.beats import LOOK_SECONDS, PeerFinding
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.node_crew import CREW
from polyrhythm.core.processes.runtime.reporter import StatusReporter
from polyrhythm.core.processes.runtime.stall_detection import Patience, StallDetector, StallReport, report
from polyrhythm.core.processes.runtime.status import ActorStatus
from polyrhythm.core.processes.transport.addresses import Address
from polyrhythm.errors import CompositionError, RunError

_LOOK_SECONDS = 1.0


class PeerMonitor:
    """The monitor of the worker `name` of a run with `workers`; all in the loop's thread.

    Every worker sends every other the same things, and each decides by itself; so all come to the same sentence. `final_messages` are
    the last messages of others: their totals, sent when they and their servers have ended well.
    """

    def __init__(self, node: Node, name: str, workers: Sequence[str], patience: Patience, record: Recorder) -> None:
        self._node = node
        self._name = name
        self._workers = list(workers)
        self._patience = patience
        self._record = record
        self._collectors: defaultdict[int, agreement.AgreementCollector] = defaultdict(agreement.AgreementCollector)
        self._comparisons: defaultdict[int, Comparisons] = defaultdict(Comparisons)
        self.final_messages: dict[str, Message] = {}
        self.on_stopping: Callable[[str, Message], None] = lambda name, message: None
        self.on_crew: Callable[[str, Message], None] = lambda name, message: None
        self.on_suspect: Callable[[PeerFinding], None] = lambda found: None
        self._launcher = launcher_process()
        self._hosts: dict[str, str] = {}
        self._watch = PeerWatch(node, patience.beats, self._is_near)
        self._detector = StallDetector(patience, self._is_near, self._watch.observer.reason)
        node.on_control = self._receive
        node.is_over = self.is_over
        node.agreement.on_request = self._agree
        node.on_compare = self._compare

    def begin(self, table: Mapping[str, Address]) -> None:
        """All are connected: `table` has their addresses."""
        self._hosts = {name: address.host for name, address in table.items()}
        if len(set(self._hosts.values())) > 1:  # a network may be silent for a while, and yet bring something
            self._detector.patience = replace(self._patience, uneven=self._patience.deadlock)
        self._detector.begin(table, time.monotonic())
        StatusReporter(self._node, self._patience.thresholds, self._send_status).look()
        self._watch.begin({name: address.ip for name, address in table.items()})
        self._follow()
        self._look()
        self._look_at_beats()

    def close(self) -> None:
        """Send no more beats; when the loop has ended."""
        self._watch.close()

    def lose(self, name: str) -> None:
        """The run continues without the actor `name`."""
        self._forget(name)
        if name in self._workers:
            self._workers.remove(name)
            self._follow()
        self._settle()

    def learn(self, table: Mapping[str, Address]) -> None:
        """These are about to join the run."""
        self._hosts |= {name: address.host for name, address in table.items()}
        self._watch.learn({name: address.ip for name, address in table.items()})

    def change(self, change: ViewChange) -> None:
        """The workers are now those of the next view: what they agree on and compare is counted anew."""
        for name in change.left:
            self._forget(name)
        self._workers = list(change.after.members)
        for name in change.joined:
            if name != self._name:
                self._detector.admit(name, time.monotonic())
        for epoch in [epoch for epoch in self._collectors if epoch < self._epoch]:
            del self._collectors[epoch]
            self._comparisons.pop(epoch, None)
        if self._name in self._workers:
            self._follow()

    def is_over(self, name: str) -> bool:
        """True if nothing more is to come of the actor `name`: an announced end is not enough where a farewell follows."""
        return name in self._node.peers.lost or (name in self.final_messages if is_worker(name) else self._node.has_ended(name))

    def send_final(self, totals: Sequence[float]) -> None:
        """Send all that this worker has ended well, with its totals."""
        self._broadcast(Message("farewell", tuple(totals)))

    def send_failure(self, why: Message) -> None:
        """Send all that this worker has failed."""
        self._broadcast(why)

    def send_stopping(self, clock: int) -> None:
        """Send all that this worker was asked to end, after `clock` steps; ENDED where it does so at once."""
        self._broadcast(Message("stopping", (float(clock),)))

    def _broadcast(self, message: Message) -> None:
        for name in self._node.peers.reached:
            self._node.peers.send_control(name, message)

    def _send_status(self, status: ActorStatus) -> None:
        self._detector.update(self._name, status, time.monotonic())
        self._broadcast(status.message())
        self._check()

    def _agree(self, facts: Facts, remedy: str) -> None:
        message = agreement.agreement_request(facts, remedy, self._epoch)
        self._collectors[self._epoch].add(self._name, message)
        self._broadcast(message)
        self._settle()

    def _compare(self, comparison: Comparison) -> None:
        self._broadcast(agreement.comparison_message(comparison, self._epoch))
        self._differ(self._name, comparison, self._epoch)

    @property
    def _epoch(self) -> int:
        """That of the view which the program is in: others may be in the next one already."""
        return self._node.actor.epoch

    def _differ(self, name: str, comparison: Comparison, epoch: int) -> None:
        if found := self._comparisons[epoch].add(name, comparison):
            self._node.fail(CompositionError(found))

    def _settle(self) -> None:
        if (difference := self._collectors[self._epoch].settle(self._workers)) is not None:
            self._node.agreement.settle(difference)

    def _receive(self, name: str, message: Message) -> None:
        self._watch.observer.heard(name, time.monotonic())
        match message.topic:
            case peer_watch.TOPIC:
                self._watch.asked(name, message)
            case "agree":
                self._collectors[int(message.numbers[0])].add(name, message)
                self._settle()
            case "compare":
                self._differ(name, agreement.comparison_of(message), int(message.numbers[0]))
            case "condition":
                self._detector.update(name, msgspec.json.decode(message.text, type=ActorStatus), time.monotonic())
                self._check()
            case "farewell":
                self.final_messages[name] = message
            case "stopping":
                self.on_stopping(name, message)
            case "failed" if name in self._workers or not is_worker(name):  # not of one that has left, or was never admitted
                self._node.fail(failure.rebuild(message))
            case topic if topic == "lost" or topic.startswith(CREW):
                self.on_crew(name, message)

    def _check(self) -> None:
        self._forget_the_ended()
        deadlock = self._detector.deadlock(time.monotonic())
        if deadlock is not None:
            self._node.fail(deadlock)

    def _look(self) -> None:
        self._forget_the_ended()
        now = time.monotonic()
        stall, expired = self._detector.look(now), self._detector.expired(now)
        if stall is not None and self._reports(stall):
            report(stall)
            self._record(Faulted(self._node.port.now(), stall.culprits[0], f"makes no progress: {stall.sentence}"))
        if expired is not None:
            self._node.fail(expired)
        if self._launcher is not None and self._launcher.gone:
            gone = f"{self._launcher.name} (process {self._launcher.pid}), which started {self._name}, has ended"
            self._node.fail(RunError(f"{gone}: nobody would end or restart this worker any more, so it ends too."))
        self._node.loop.after(min(_LOOK_SECONDS, self._patience.notice / 4), self._look)

    def _look_at_beats(self) -> None:
        self._forget_the_ended()
        now = time.monotonic()
        changes, suspects = self._watch.look(now)
        for found in changes:
            if self._name == next((name for name in self._workers if name != found.name), ""):  # so that it is recorded once
                at = self._node.port.now()
                self._record(Suspected(at, found.name, found.verdict, at - (now - found.since)))
        for found in suspects:
            self.on_suspect(found)
        self._node.loop.after(LOOK_SECONDS, self._look_at_beats)

    def _follow(self) -> None:
        """Watch the first worker, or all others where this one is the first: P workers then send 2 (P - 1) beats, not P (P - 1)."""
        watched = self._workers[:1] if self._name != self._workers[0] else self._workers[1:]
        self._watch.watch(name for name in watched if not self.is_over(name))

    def _is_near(self, other: str) -> bool:
        """True if the actor `other` is on this host."""
        return self._hosts.get(other) == self._hosts.get(self._name)

    def _forget_the_ended(self) -> None:
        for name in list(filter(self.is_over, self._detector.names)):
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._detector.forget(name, time.monotonic())
        self._watch.forget(name)

    def _reports(self, stall: StallReport) -> bool:
        """True if this worker reports it: the first of those who wait, so that it is reported once."""
        return self._name == next(iter(stall.waiters or [name for name in self._workers if name not in stall.culprits]), "")
