"""The first member's part in a crew that changes: it leads the others, keeps the door, and admits who comes.

`JoinedCrew` has one while its worker is the first. All in the loop's thread, but for the door's.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.kernel.view import NextView, View, ViewChange, next_name
from polyrhythm.core.processes.rendezvous.crew_links import CrewLinks
from polyrhythm.core.processes.rendezvous.crew_place import MeetingDoor
from polyrhythm.core.processes.rendezvous.residents import Admission, Call, different
from polyrhythm.core.processes.runtime.crew_lead import CrewLead
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.node_crew import ARRIVE, CREW
from polyrhythm.core.processes.store.door import Door, DoorCaller
from polyrhythm.errors import RunError, WorkerFailed

KNOWN, BROKEN, LEAVING = CREW + "known", CREW + "broken", CREW + "leaving"
TABLE, STAY, DISMISSED, DROPPED = CREW + "table", CREW + "stay", CREW + "dismissed", CREW + "dropped"
_PORT_SECONDS, _PAUSE_SECONDS = 5.0, 0.1
_GUEST_SECONDS, _LOOK_SECONDS = 60.0, 0.5
_LEFT = "The first member of the run has left it. Start this process again."
_JUDGE_SECONDS = 1.0
"""So long after a connection of two others has broken it is known whether one of the two is lost."""


@dataclass(frozen=True, slots=True)
class Doorway:
    """Where a door is or may be later, at the address `listening` of this host: the `facts` that are compared there, who has called."""

    place: MeetingDoor
    listening: str
    facts: dict[str, str]
    callers: queue.SimpleQueue[DoorCaller] = field(default_factory=queue.SimpleQueue)


@dataclass(frozen=True, slots=True)
class CrewSetting:
    """The `job` of the run, what this process was given at the door, and the door that it may keep."""

    job: Job
    answer: Admission
    doorway: Doorway


@dataclass(slots=True)
class Guest:
    """A newcomer `name` on its way; it is answered when nobody is left of those who do not know its address yet."""

    name: str
    caller: DoorCaller
    unknowing: set[str]
    came: float
    answered: bool = False
    absent: int = 0


class CrewHost:
    """The host of the workers of `view`. `fail` ends the run for everybody. Implements `CrewStaff`."""

    def __init__(self, setting: CrewSetting, view: View, node: Node, links: CrewLinks, fail: Callable[[BaseException], None]) -> None:
        job = setting.job
        self.lead = CrewLead(replace(job, crew=replace(job.crew, replace=False)), view, self)  # nobody can be started here
        left = [name for name in links.residents if not view.present(name) and name not in view.left]
        self.lead.authority.early += left  # an earlier first member has given these names away
        self._setting = setting
        self._node = node
        self._links = links
        self.fail = fail
        self._door: Door | None = None
        self._guest: Guest | None = None
        self._queue: deque[DoorCaller] = deque()
        self._closed = False

    # The door

    def keep(self, door: Door) -> None:
        """Keep a door that is open already, and take in who has called there."""
        self._door, callers = door, self._setting.doorway.callers
        door.on_call = self._call
        while not callers.empty():
            self._call(callers.get())

    def open(self, until: float = 0.0) -> None:
        """Open a door where those who come later look for one; that of the last first member may hold the port for a moment."""
        doorway, until = self._setting.doorway, until or time.monotonic() + _PORT_SECONDS
        if self._closed:
            return
        try:
            self._door = doorway.place.take_over(doorway.listening, self._call)
        except (OSError, RunError):
            if time.monotonic() < until:
                self._node.loop.after(_PAUSE_SECONDS, lambda: self.open(until))
                return
        if self._door is None:
            notify(
                f"{self._links.name} is the first of the workers now, and not at {doorway.place.shown}: nobody can join from now on. "
                + doorway.place.remedy
            )

    def close(self) -> None:
        """Close the door, and send away who waits there."""
        self._closed = True
        for caller in self._queue:
            over = "The run has ended: it takes nobody any more." if self.lead.authority.finished else _LEFT
            caller.refuse(RunError(over))
        if self._door is not None:
            self._door.close()

    def retire(self) -> None:
        """Another member is the first from now on."""
        for name in self.lead.authority.coming:
            self.dismiss(name)
        self.close()

    def _call(self, caller: DoorCaller) -> None:
        self._node.loop.call(lambda: self._take(caller))

    def _take(self, caller: DoorCaller) -> None:
        self._queue.append(caller)
        self._next()

    @property
    def _others(self) -> list[str]:
        return [name for name in self._links.everybody if name != self._links.name]

    def _next(self) -> None:
        """Let the next caller in. One at a time: so all who are there know each other."""
        while self._guest is None and self._queue:
            if not self._node.peers.connected(self._others):  # the run has just begun: what is sent now would not arrive
                self._node.loop.after(_PAUSE_SECONDS, self._next)
                return
            caller, authority, most = self._queue.popleft(), self.lead.authority, self._setting.job.crew.most
            if caller.gone:
                continue
            call = msgspec.json.decode(caller.call, type=Call)
            if (problem := different(self._setting.doorway.facts, call, next_name(authority.view, most + 1))) is not None:
                caller.refuse(problem)
            elif (name := authority.join()) is None:
                why = (
                    "is ending" if authority.finished else f"has {most} workers, or others that are about to join, and no more are allowed"
                )
                caller.refuse(RunError(f"The run {why}: it does not take another one."))
            else:
                others = self._others
                self._links.learn({name: call.resident})
                self._guest = Guest(name, caller, set(others), time.monotonic())
                self.send(others, Message(TABLE, text=msgspec.json.encode({name: call.resident}).decode()))
                self._answer()
                self._look(self._guest)

    def _answer(self) -> None:
        guest, answer = self._guest, self._setting.answer
        if guest is None or guest.unknowing or guest.answered:
            return
        guest.answered = True
        residents = {name: self._links.residents[name] for name in self._links.everybody}
        now, view = self._node.port.now(), self.lead.authority.view
        guest.caller.answer(msgspec.json.encode(Admission(guest.name, answer.secret, now, answer.founders, view, residents)))
        self._node.peers.connect([guest.name])

    def _look(self, guest: Guest | None) -> None:
        """Have a newcomer lost that does not arrive."""
        if guest is None or self._guest is not guest:
            return
        guest.absent += guest.caller.gone and not self._node.peers.connected([guest.name])
        if guest.absent > 1 or time.monotonic() > guest.came + _GUEST_SECONDS:
            self.lose(guest.name, "it did not arrive")
        else:
            self._node.loop.after(_LOOK_SECONDS, lambda: self._look(guest))

    # What comes from the others

    def received(self, name: str, message: Message) -> None:
        """A message of the runtime of `name` to the first member's."""
        guest = self._guest
        if message.topic == KNOWN:
            self._know(name)
        elif message.topic == BROKEN:
            self._node.loop.after(_JUDGE_SECONDS, partial(self._judge, name, message.text))
        elif message.topic == LEAVING:
            if not self.lead.leave(name):
                self._links.to(name, Message(STAY))
        else:
            self.lead.received(name, message)
            if message.topic == ARRIVE and guest is not None and guest.name == name:
                self._guest = None
                self._next()

    def lose(self, name: str, why: str) -> None:
        """The process of `name` is lost."""
        self._links.gone.add(name)
        if not self.lead.present(name):
            self._node.peers.lose(name)
        try:
            if name not in self.lead.dismissed:
                self.lead.lose(name, why)
        except WorkerFailed as problem:
            self.fail(problem)
            return
        if self._guest is not None and self._guest.name == name:
            self._guest.caller.refuse(RunError(f"The run goes on without {name}, as this process was to be called: {why}. Start it again."))
            self._guest = None
        self._know(name)
        self._next()

    def drop(self, name: str, why: str) -> None:
        """Go on without `name`, whose process may be there."""
        self._links.to(name, Message(DROPPED, text=why))
        self.lose(name, why)

    def _know(self, name: str) -> None:
        if self._guest is not None:
            self._guest.unknowing.discard(name)
            self._answer()

    def _judge(self, one: str, other: str) -> None:
        """Two that are both there cannot reach each other: the later one leaves."""
        view = self.lead.authority.view
        if view.present(one) and view.present(other) and not self._closed:
            first, last = sorted((one, other), key=view.rank)
            self.drop(last, f"its connection with {first} was lost")

    # The staff of the lead

    @property
    def everybody(self) -> list[str]:
        """All that are there."""
        return self._links.everybody

    def send(self, names: Iterable[str], message: Message) -> None:
        """Send it to each."""
        for name in list(names):
            self._links.to(name, message)

    def hire(self, name: str) -> None:
        """Nothing: its process has come by itself."""

    def dismiss(self, name: str) -> None:
        """Have it end."""
        if self._guest is not None and self._guest.name == name and not self._guest.answered:
            self._guest.caller.refuse(RunError("The run is ending, or its first member leaves it: it takes nobody now."))
        self._links.to(name, Message(DISMISSED))

    def describe(self, change: ViewChange) -> NextView:
        """The notice, with the places of all members."""
        places = [self._links.residents[name] for name in change.after.members]
        return NextView(change, tuple((each.site, each.host) for each in places))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make `call`, unless another member is the first by then."""
        self._node.loop.after(seconds, lambda: None if self._closed else call())

    def completed(self, name: str) -> None:
        """Not known: what a lost worker has used is taken to be what the others have."""
