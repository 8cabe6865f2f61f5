"""Injects faults into the actors and the network of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyrhythm.core import rng
from polyrhythm.core.kernel.events import Faulted
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.simulator.scheduler import Scheduler
from polyrhythm.errors import WorkerFailed, unknown
from polyrhythm.hardware.faults import Crash, Cut, DatagramFaults, Drop, Fault, Stall
from polyrhythm.hardware.network import Network


class FaultInjection:
    """Schedules `faults`. `essential` is true for an actor without which the run cannot continue; `seed` draws the lost messages."""

    def __init__(self, scheduler: Scheduler, network: Network | None, workers: int, essential: Callable[[str], bool], seed: int) -> None:
        self._scheduler = scheduler
        self._network = network
        self._workers = workers
        self._essential = essential
        self._seed = seed
        self._drops: list[Drop] = []
        self._datagrams: list[DatagramFaults] = []

    def plan(self, faults: Sequence[Fault]) -> None:
        """Schedule each fault at its time. Raises UnknownNameError for a host or a site that does not exist."""
        known = {name for actor in self._scheduler.actors for name in self._names(actor)}
        known |= {f"site/{site.name}" for site in self._network.sites} if self._network is not None else set()
        for fault in faults:
            for name in _between(fault):
                if name not in known:
                    raise unknown("host, site or actor", name, known)
        self._drops = [fault for fault in faults if isinstance(fault, Drop)]
        if self._drops:
            self._scheduler.mailroom.losses = self.losses
        self._datagrams = [fault for fault in faults if isinstance(fault, DatagramFaults)]
        if self._datagrams or (self._network is not None and self._network.loss):
            self._scheduler.mailroom.fates = self.fates
        handlers: dict[type, Callable[[Any, None], None]] = {Crash: self._crash, Stall: self._stall, Cut: self._cut}
        for fault in faults:
            if type(fault) in handlers:
                self._scheduler.queue.at(fault.at, (handlers[type(fault)], fault, None))

    def _crash(self, fault: Crash, _: None) -> None:
        scheduler, actor = self._scheduler, self._scheduler.actors[fault.actor]
        if actor.ended:
            return
        self._record(actor.name, "crashed")
        if self._essential(actor.name):
            when = f"{scheduler.queue.now:.9g} s of virtual time"
            raise WorkerFailed(actor.name, f"it crashed at {when}, as scheduled, and the run cannot go on without it")
        scheduler.lose(actor)
        notice = Message("lost", text=actor.name)
        for other in scheduler.actors.values():
            scheduler.mailroom.deliver(other, Delivery(actor.name, notice))

    def _stall(self, fault: Stall, _: None) -> None:
        actor = self._scheduler.actors[fault.actor]
        if not actor.ended:
            self._record(actor.name, f"stalls for {fault.duration:.9g} s")
            self._scheduler.stall(actor, fault.duration)

    def _cut(self, fault: Cut, _: None) -> None:
        self._record(fault.a, f"cut off from {fault.b} for {fault.duration:.9g} s")
        self._scheduler.faults.cut(fault, self._scheduler.queue.now)
        self._scheduler.mailroom.block(fault.a, fault.b, True)
        self._scheduler.queue.at(self._scheduler.queue.now + fault.duration, (self._mend, fault, None))

    def _mend(self, fault: Cut, _: None) -> None:
        self._scheduler.mailroom.block(fault.a, fault.b, False)

    def losses(self, sender: str, receiver: str) -> Callable[[str], bool] | None:
        """A function that draws whether the next message from `sender` to `receiver`, under a topic, is lost; None where none can be."""
        here, there = self._names(sender), self._names(receiver)
        drops = [
            (drop, rng.stream(self._seed, "drop", place, sender, receiver))
            for place, drop in enumerate(self._drops)
            if drop.between is None or _are_between(here, there, *drop.between)
        ]
        if not drops:
            return None

        def loses(topic: str) -> bool:
            now = self._scheduler.queue.now
            lost = [drop for drop, stream in drops if drop.at <= now < drop.at + drop.duration and stream.random() < drop.probability]
            if lost:
                self._record(sender, f"a message to {receiver} was lost")
                self._scheduler.faults.lose(sender, receiver, topic, now)
            return bool(lost)

        return loses

    def fates(self, sender: str, receiver: str) -> Callable[[str], tuple[float, ...]]:
        """A function that draws by how many seconds each copy of the next datagram under a topic is late, of those that arrive."""
        here, there = self._names(sender), self._names(receiver)
        faults = [fault for fault in self._datagrams if fault.between is None or _are_between(here, there, *fault.between)]
        loss = self._network.loss if self._network is not None and here[1] != there[1] else 0.0
        stream = rng.stream(self._seed, "datagrams", sender, receiver)

        def fate(topic: str) -> tuple[float, ...]:
            now, copies = self._scheduler.queue.now, [0.0]
            lost = stream.random() < loss
            for fault in faults:
                draws = stream.random(3)
                if not (fault.at <= now < fault.at + fault.duration and topic.endswith(fault.topic)):
                    continue
                lost = lost or bool(draws[0] < fault.loss)
                if draws[1] < fault.duplicated:
                    copies.append(fault.delay)
                if draws[2] < fault.late:
                    copies[0] += fault.delay
            return () if lost else tuple(copies)

        return fate

    def _names(self, actor: str) -> tuple[str, ...]:
        """The names under which a fault may refer to `actor`, its host and its site."""
        if self._network is None:
            return (actor,)
        host = self._network.host_of(actor, self._workers)
        site = self._network.sites[self._network.site_of(host, self._workers)]
        return actor, f"host/{host}", f"site/{site.name}"

    def _record(self, actor: str, what: str) -> None:
        self._scheduler.record(Faulted(self._scheduler.queue.now, actor, what))


def _between(fault: Fault) -> tuple[str, ...]:
    """The names of the two places whose connections `fault` affects."""
    match fault:
        case Cut():
            return fault.a, fault.b
        case Drop() | DatagramFaults():
            return fault.between or ()
    return ()


def _are_between(here: tuple[str, ...], there: tuple[str, ...], a: str, b: str) -> bool:
    return (a in here and b in there) or (b in here and a in there)
