"""A worker's part in a crew that changes, where no launcher leads it: the first member does, and the next one when it is lost or leaves.

Messages go over the connections of the workers, as those of their runtimes (`Peers.send_control`). Besides the topics of `NodeCrew`, to
the first member go `known` (a table has come), `broken` (the connection with somebody), `leaving` (a notice), `report` (the view of a
worker that follows a new first member); from it come `table`, `lost`, `stay` (nobody else is left), `dismissed`, `dropped`. To all go
`failed` from a worker that has joined them, and has failed before its first step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from polyrhythm.core.kernel.events import CrewChanged, Faulted, Recorder
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.kernel.view import NextView, View, ViewChange
from polyrhythm.core.processes.rendezvous.crew_host import BROKEN, KNOWN, LEAVING, CrewHost, CrewSetting
from polyrhythm.core.processes.rendezvous.crew_links import CrewLinks
from polyrhythm.core.processes.rendezvous.peer_monitor import PeerMonitor
from polyrhythm.core.processes.rendezvous.residents import Resident
from polyrhythm.core.processes.runtime.beats import PeerFinding
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.processes.runtime.failure import failure_message, rebuild
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.node_crew import CREW, END, NodeCrew
from polyrhythm.core.processes.spawn.child_watch import Reaction, replace_stopped
from polyrhythm.core.processes.store.door import Door
from polyrhythm.errors import RunError, TamperedError, WorkerFailed, sentence

REPORT, FAILED = CREW + "report", CREW + "failed"
_TOGETHER_SECONDS = 0.2
"""Processes of one host fall together, and a connection that ends well is closed just before that is known."""
_REPORT_SECONDS = 10.0
LOST = "its connection was lost"


class JoinedCrew:
    """The part of the worker of `node`, in the loop's thread. `lost` are those that were, and `departed` is true when it has left."""

    def __init__(self, setting: CrewSetting, node: Node, monitor: PeerMonitor, context: NodeContext, record: Recorder) -> None:
        self.lost: list[str] = []
        self.departed = False
        self.on_stay: Callable[[], None] = lambda: None
        self._setting = setting
        self._node = node
        self._name = node.port.name
        self._monitor = monitor
        self._record = record
        self._view = setting.answer.view
        self._leader = self._view.first
        self._links = CrewLinks(node, monitor, setting.answer.residents, self._receive)
        self._side = NodeCrew(node, context, lambda message: self._links.to(self._leader, message), lambda found: {})
        self._host: CrewHost | None = None
        self._ended = False
        self._gone: dict[str, None] = {}
        self._broken: set[str] = set()
        self._early: list[tuple[str, Message]] = []
        self._reasons: dict[str, str] = {}
        self._reports: dict[str, tuple[View, bool]] = {}
        context.crew = self._side
        node.on_connection_lost = self._connection_lost
        monitor.on_crew = self._receive
        monitor.on_suspect = self._suspect

    # From other threads

    def lead(self, door: Door) -> None:
        """Be the first member from the beginning, with a `door` that is open; before the loop runs."""
        self._host = self._new_host(self._view)
        self._host.keep(door)

    def others(self) -> list[str]:
        """Those that must end before this worker may."""
        return [] if self.departed else [name for name in self._view.members if name != self._name]

    @property
    def first(self) -> str:
        """The first of those who are there."""
        return self._view.first

    @property
    def may_leave(self) -> bool:
        """True if it takes steps with others."""
        return self._view.present(self._name) and not self._ended

    @property
    def ended(self) -> bool:
        """True if the whole run has ended, in which this worker was to the end."""
        return self._view.present(self._name) and self._ended

    def close(self) -> None:
        """Close the door, if it is here; when the loop has ended."""
        if self._host is not None:
            self._host.close()

    def failure(self, problem: BaseException) -> Message:
        """The message that this worker has failed: before its first step among others it is a loss to them, and does not end the run."""
        message, joined = failure_message(self._name, problem), not self._setting.answer.view.present(self._name)
        return replace(message, topic=FAILED) if joined and not self._side.stepped and not isinstance(problem, TamperedError) else message

    # In the loop's thread

    def ask_to_leave(self) -> None:
        """Give notice."""
        self._links.to(self._leader, Message(LEAVING))

    def _receive(self, name: str, message: Message) -> None:
        match message.topic:
            case "crew/change":
                self._change(message)
            case "crew/hold" | "crew/settle" | "crew/release" | "crew/end":
                self._ended = self._ended or message.topic == END
                self._side.receive(message)
            case "lost":
                self._continue_without(message.text)
            case "crew/table":
                table = msgspec.json.decode(message.text, type=dict[str, Resident])
                self._links.learn(table)
                self._node.peers.connect(table)
                self._links.to(name, Message(KNOWN))
            case "crew/failed":
                self._reasons[name] = f"failed before its first step: {sentence(rebuild(message))}"
            case "crew/stay":
                self.on_stay()
            case "crew/dismissed":
                self._node.fail(RunError(f"The run ended, or lost its first member, before {self._name} was admitted."))
            case "crew/dropped":
                self._node.fail(WorkerFailed(self._name, f"the others continue without it: {message.text}"))
            case "crew/report":
                view, ended = msgspec.json.decode(message.text, type=View), bool(message.numbers[0])
                self._reports[name] = view, ended
                self._succeed()
            case _ if self._host is not None:
                self._host.received(name, message)
            case _:
                self._early.append((name, message))

    def _change(self, message: Message) -> None:
        found = msgspec.json.decode(message.text, type=NextView).change
        if found.after.epoch <= self._view.epoch:
            return
        change = ViewChange(self._view, found.after, found.lost, found.steps)
        for name in change.left:
            if name in found.lost:
                self._note_lost(name)
        self._side.receive(message)
        self._view = change.after
        self.departed = change.before.present(self._name) and not change.after.present(self._name)
        if self.departed:
            notify(f"{self._name} leaves the run, and the others continue.")
        self._monitor.change(change)
        after = change.after
        self._record(CrewChanged(self._node.port.now(), after.first, after.epoch, after.members, change.joined, change.left))
        for name in change.joined:
            if name in self._broken:
                self._links.to(after.first, Message(BROKEN, text=name))
        if after.first != self._leader:
            self._follow(after.first)

    def _continue_without(self, name: str) -> None:
        """The others do not need `name`, which is lost, in this view."""
        if self._view.present(name):
            self._view = self._view.without(name)
            self._note_lost(name)
            self._node.lose(name)
            self._monitor.lose(name)

    def _note_lost(self, name: str) -> None:
        self.lost.append(name)
        why = self._reasons.get(name)
        self._record(Faulted(self._node.port.now(), name, why or LOST))
        notify(f"{self._name} continues without {name}, {f'which {why}' if why else 'whose connection was lost'}.")

    def _suspect(self, found: PeerFinding) -> None:
        """A process that is stopped or cut off is lost, where the crew may replace it."""
        if self._setting.job.crew.replace and replace_stopped(found.name, found) is Reaction.REPLACE:
            if self._host is not None:
                self._host.drop(found.name, "it was stopped, or nothing came from it")
            elif found.name == self._leader:
                self._connection_lost(found.name, None)

    # Losses

    def _connection_lost(self, name: str, why: Exception | None) -> None:
        if isinstance(why, TamperedError):
            self._node.fail(why)
        elif name not in self._broken:
            self._broken.add(name)
            self._node.loop.after(_TOGETHER_SECONDS, lambda: self._decide(name))

    def _decide(self, name: str) -> None:
        member = self._view.present(name)
        if self._node.failure is not None or self.departed or self._monitor.is_over(name) or (self._node.has_ended(name) and not member):
            return
        self._gone[name] = None
        if self._host is not None:
            self._host.lose(name, LOST)
        elif name == self._leader:
            self._choose()
        elif member:
            self._links.to(self._leader, Message(BROKEN, text=name))
        else:
            self._node.peers.lose(name)
        self._succeed()

    # Another first member

    def _choose(self) -> None:
        """The first member is lost: the next of the view follows it, and all report to that one what they know."""
        if not self._view.present(self._name):
            self._node.fail(RunError(f"{self._leader}, the first member of the run, was lost before it had admitted {self._name}."))
            return
        self._leader = next(name for name in self._view.members if name not in self._gone)
        self._links.to(self._leader, Message(REPORT, (float(self._ended),), msgspec.json.encode(self._view).decode()))
        if self._leader == self._name:
            self._node.loop.after(_REPORT_SECONDS, self._give_up)

    def _succeed(self) -> None:
        """Lead from now on, if this is the next member, and all others have reported to it."""
        if self._host is not None or self._leader != self._name or self._name not in self._reports:
            return
        view = max((view for view, _ in self._reports.values()), key=lambda view: view.epoch)
        if any(name not in self._reports and name not in self._gone for name in view.members):
            return
        lost = [name for name in view.members if name in self._gone]
        if any(ended for _, ended in self._reports.values()):
            self._fail(WorkerFailed(lost[0], f"{LOST}, and others have taken their last step, so that none can be repeated without it"))
            return
        self._begin_to_lead(view)
        for name in lost:
            if self._host is not None:
                self._host.lose(name, LOST)

    def _give_up(self) -> None:
        if self._host is None and self._leader == self._name and self._node.failure is None:
            self._node.fail(RunError(f"{self._name} has lost its connections with others that still have theirs, and leaves the run."))

    def _follow(self, leader: str) -> None:
        """The first member has left or is lost, and everybody knows the next one."""
        self._leader = leader
        if self._host is not None:
            host, self._host = self._host, None
            host.retire()
        if leader == self._name:
            self._begin_to_lead(self._view)

    def _begin_to_lead(self, view: View) -> None:
        self._host = self._new_host(view)
        self._host.open()
        early, self._early = self._early, []
        for name, message in early:
            self._host.received(name, message)

    def _new_host(self, view: View) -> CrewHost:
        return CrewHost(self._setting, view, self._node, self._links, self._fail)

    def _fail(self, problem: BaseException) -> None:
        """End the run for everybody."""
        self._monitor.send_failure(failure_message(self._name, problem))
        self._node.fail(problem)
