"""The entrance of a crew that changes: the first process waits for as many as the run needs, and later ones are admitted at a cut."""

from __future__ import annotations

import os
import queue
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.names import FIRST, worker
from polyrhythm.core.kernel.view import View
from polyrhythm.core.processes.collectives.reducer import GroupReducer
from polyrhythm.core.processes.rendezvous.crew_host import CrewSetting, Doorway
from polyrhythm.core.processes.rendezvous.crew_place import MeetingDoor
from polyrhythm.core.processes.rendezvous.entrance import HOST, Following
from polyrhythm.core.processes.rendezvous.hosts import towards
from polyrhythm.core.processes.rendezvous.joined_crew import JoinedCrew
from polyrhythm.core.processes.rendezvous.leave_request import LeaveRequest
from polyrhythm.core.processes.rendezvous.locations import SITE
from polyrhythm.core.processes.rendezvous.peer_monitor import PeerMonitor
from polyrhythm.core.processes.rendezvous.places import Attendee, warn_unprotected
from polyrhythm.core.processes.rendezvous.residents import Admission, Call, Resident, different
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.store.dialogue import PUBLIC
from polyrhythm.core.processes.store.door import Door, DoorCaller
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.core.processes.transport.addresses import Address, Listeners, listen_everywhere
from polyrhythm.errors import RunError

_LOOK_SECONDS = 0.2


@dataclass(slots=True)
class CrewEntrance:
    """What the first member has answered this process, or, in the first, what it has answered the others.

    Exactly one of `door` and `client` is there.
    """

    answer: Admission
    address: str
    doorway: Doorway
    listeners: Listeners
    door: Door | None = None
    client: StoreClient | None = None
    crew: JoinedCrew | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """As the first member says."""
        return self.answer.name

    @property
    def founders(self) -> tuple[Location, ...]:
        """The locations of those with whom the run began."""
        return tuple(Location(*each) for each in self.answer.founders)

    @property
    def newcomer(self) -> bool:
        """True if the run has begun before."""
        return not self.answer.view.present(self.name)

    def agree(self, facts: Facts) -> tuple[bytes, str]:
        """Everything was compared at the door. What a newcomer would disturb at devices of CUDA, a sum under way, is not used."""
        return bytes.fromhex(self.answer.secret), "cpu"

    def listen(self) -> Listeners:
        """The sockets of which the address was given at the door."""
        return self.listeners

    def members(self, job: Job) -> list[str]:
        """Those of the view."""
        return list(self.answer.view.members)

    def exchange(self, mine: dict[str, Address], names: Sequence[str]) -> dict[str, Address]:
        """All are known."""
        return {name: resident.address for name, resident in self.answer.residents.items()}

    def follow(self, node: Node, monitor: PeerMonitor, context: NodeContext, job: Job, record: Recorder) -> Following:
        """What follows a loss is decided by the first member."""
        crew = self.crew = JoinedCrew(CrewSetting(job, self.answer, self.doorway), node, monitor, context, record)
        if self.door is not None:
            crew.lead(self.door)
        return Following(crew.lost, LeaveRequest(node, crew), crew.others, lambda: crew.departed, True, crew.failure, lambda: crew.first)

    def connected(self, node: Node, names: Sequence[str]) -> bool:
        """Those who are lost or have left meanwhile are not needed."""
        return all(node.has_ended(name) or node.peers.connected([name]) for name in names)

    def complete(self, node: Node, job: Job, table: dict[str, Address], use: Callable[[dict[str, GroupReducer]], None]) -> None:
        """Sums are made by messages, which a loss can interrupt. The door is not needed any more."""
        if self.client is not None:
            self.client.close()

    def close(self, error: BaseException | None = None) -> None:
        """Close the door, if it is here."""
        if self.client is not None:
            self.client.close()
        if self.crew is not None:
            self.crew.close()
        elif self.door is not None:
            self.door.close()


def enter_crew(place: MeetingDoor, founders: int, facts: Facts, seconds: float, bind: str = "") -> CrewEntrance:
    """Begin a run at `place`, or join the one that somebody has begun; `facts` are what all must have been started with.

    The run begins when so many `founders` have come. Raises RunError if that takes longer than `seconds`, or nobody can be reached.
    """
    who = Attendee(0, founders, seconds, bind)
    callers: queue.SimpleQueue[DoorCaller] = queue.SimpleQueue()
    door = place.begin(bind, callers.put)
    if door is None:
        return _call(place, who, facts)
    if place.key == PUBLIC:
        warn_unprotected(door.address, founders + 1)
    try:
        return _found(place, door, who, facts, callers)
    except BaseException:
        door.close()
        raise


def _found(place: MeetingDoor, door: Door, who: Attendee, facts: Facts, callers: queue.SimpleQueue[DoorCaller]) -> CrewEntrance:
    """Be the first member: wait for the others, and give everybody a name."""
    listening, outside = who.addresses(lambda: door.address[0])
    listeners = listen_everywhere(listening, os.environ.get(HOST, ""))
    come = [(None, _resident(listeners, outside)), *_gathered(place, who, facts, callers)]
    residents = {worker(rank): resident for rank, (_, resident) in enumerate(come)}
    founders = [(each.site, each.host) for each in residents.values()]
    first = Admission(FIRST, secrets.token_hex(32), 0.0, founders, View.of(list(residents)), residents)
    for name, (caller, _) in zip(residents, come, strict=True):
        if caller is not None:
            caller.answer(msgspec.json.encode(replace(first, name=name)))
    return CrewEntrance(first, listening, Doorway(place, listening, dict(facts), callers), listeners, door)


def _gathered(
    place: MeetingDoor, who: Attendee, facts: Facts, callers: queue.SimpleQueue[DoorCaller]
) -> list[tuple[DoorCaller | None, Resident]]:
    """Those with whom the run begins, in the order in which they came."""
    deadline, come = time.monotonic() + who.seconds, list[tuple[DoorCaller, Resident]]()
    while len(come) < who.workers - 1:
        come = [each for each in come if not each[0].gone]
        try:
            caller = callers.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            place.check()
            if time.monotonic() > deadline:
                problem = RunError(
                    f"{len(come) + 1} of the {who.workers} workers with which the run begins have come to {place.shown} within "
                    f"{who.seconds:g} seconds: start the others with the same MASTER_ADDR, MASTER_PORT and POLYRHYTHM_SECRET."
                )
                for caller, _ in come:
                    caller.refuse(problem)
                raise problem from None
            continue
        call = msgspec.json.decode(caller.call, type=Call)
        if (problem_found := different(facts, call, worker(len(come) + 1))) is not None:
            caller.refuse(problem_found)
        else:
            come.append((caller, call.resident))
    return list(come)


def _call(place: MeetingDoor, who: Attendee, facts: Facts) -> CrewEntrance:
    """Call at the door, and wait for a name."""
    client = place.find(who.seconds)
    try:
        listening, outside = who.addresses(lambda: towards(client.target.ip))
        listeners = listen_everywhere(listening, os.environ.get(HOST, ""))
        client.set("call", msgspec.json.encode(Call(dict(facts), _resident(listeners, outside))))
        [value] = client.get(["answer"], who.seconds)
    except TimeoutError:
        client.close()
        raise RunError(
            f"The first member of the run at {place.shown} has not admitted this process within {who.seconds:g} seconds."
        ) from None
    except BaseException:
        client.close()
        raise
    answer = msgspec.json.decode(value, type=Admission)
    return CrewEntrance(answer, listening, Doorway(place, listening, dict(facts)), listeners, client=client)


def _resident(listeners: Listeners, outside: str) -> Resident:
    host = os.environ.get(HOST, "") or outside
    return Resident(replace(listeners.address, ip=outside), os.environ.get(SITE, ""), host)
