"""Injects faults into the actors and the network of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, get_args

from polyrhythm.core.kernel.events import AnyEvent, Faulted, Stepped
from polyrhythm.core.kernel.message import Delivery, Message
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.simulator.actors import VirtualActor
from polyrhythm.core.simulator.scheduler import Scheduler
from polyrhythm.errors import WorkerFailed, unknown
from polyrhythm.hardware.faults import (
    Disconnect,
    Fault,
    HoldGIL,
    Join,
    Leave,
    SlowDisk,
    Stall,
)
from polyrhythm.hardware.faults.fault import AwaitedFaults, Deadly, LineFault, Loss, begins, places, resolved
from polyrhythm.hardware.faults.losses import Losses
from polyrhythm.hardware.network import Network


class FaultInjection:
    """Schedules `faults`. `essential` is true for an actor without which the run cannot continue; `seed` draws the lost messages.

    A crash is noticed `detection` seconds after it. A run whose workers may change sets `joins`, which is called at a `Join`, `leaves`,
    which gets the name of the actor at a `Leave`, and `loses`, with that of a lost actor, and whether the others are to continue in
    another view.
    """

    def __init__(
        self, scheduler: Scheduler, network: Network | None, workers: int, essential: Callable[[str], bool], seed: int, detection: float
    ) -> None:
        self._scheduler = scheduler
        self._detection = detection
        self._network = network
        self._workers = workers
        self.essential = essential
        self._seed = seed
        self.joins: Callable[[Join], None] = _ignore
        self.leaves: Callable[[str], object] = _ignore
        self.loses: Callable[[str, bool], None] | None = None
        self._losses = Losses((), seed, lambda: scheduler.queue.now, self._lost)
        self._awaited = AwaitedFaults([])
        self._checkpoints: dict[str, int] = {}
        self._disks: dict[str, list[tuple[float, float]]] = {}
        self._handlers: dict[type, Callable[[Any], None]] = {
            **dict.fromkeys(get_args(Deadly), self._crash),
            **dict.fromkeys(get_args(Loss), self._begin),
            Stall: self._stall,
            HoldGIL: self._hold,
            SlowDisk: self._slow,
            Disconnect: self._cut,
            Leave: self._leave,
            Join: self._join,
        }

    def plan(self, faults: Sequence[Fault]) -> None:
        """Schedule each fault at its time or step. Raises UnknownNameError for a host or a site that does not exist."""
        scheduler = self._scheduler
        known = {name for actor in scheduler.actors for name in self._names(actor)}
        known |= {f"site/{site.name}" for site in self._network.sites} if self._network is not None else set()
        for fault in faults:
            for name in places(fault) if isinstance(fault, LineFault) else ():
                if name not in (*known, "first"):
                    raise unknown("host, site or actor", name, known)
        self._losses = Losses(faults, self._seed, lambda: scheduler.queue.now, self._lost)
        if self._losses.drops:
            scheduler.mailroom.losses = lambda *between: self._losses.of_messages(*between, *map(self._names, between))
        if self._losses.datagrams or (self._network is not None and self._network.loss):
            scheduler.mailroom.fates = self._fates
        self._awaited = AwaitedFaults(list(faults))
        for actor in scheduler.actors.values():
            self.follow(actor)
        for fault in faults:
            if (at := begins(fault)) is not None and not isinstance(fault, Loss):
                scheduler.queue.at(at, (self._inject, fault, None))

    def follow(self, actor: VirtualActor) -> None:
        """Watch the steps of `actor`, if a fault waits for any."""
        if self._awaited.moments and actor.program is not None:
            actor.program.record = self._observe

    def written(self, name: str) -> float | None:
        """The worker has written its part of a checkpoint: the seconds that a slow disk takes longer; None where nothing is to be done."""
        self._checkpoints[name] = self._checkpoints.get(name, 0) + 1
        killed = self._reach(name, f"checkpoint {self._checkpoints[name]}")
        slow = [seconds for until, seconds in self._disks.get(name, []) if self._scheduler.queue.now < until]
        return sum(slow) if slow or killed else None

    def _observe(self, event: AnyEvent) -> None:
        self._scheduler.record(event)
        if isinstance(event, Stepped):
            self._reach(event.actor, f"step {event.clock}")

    def _reach(self, actor: str, when: str) -> bool:
        """Have the faults that waited for this moment of `actor` happen as soon as its program waits; True if there are any."""
        found = self._awaited.take(actor, when, self._first())
        for fault in found:
            self._scheduler.queue.ready.append((self._inject, fault, None))
        return bool(found)

    def _first(self) -> str:
        return next((name for name, actor in self._scheduler.actors.items() if is_worker(name) and not actor.ended), "")

    def _inject(self, fault: Fault, _: None) -> None:
        self._handlers[type(fault)](resolved(fault, self._first()))

    def _present(self, name: str) -> VirtualActor | None:
        """The actor, unless it has ended or has not come yet."""
        actor = self._scheduler.actors.get(name)
        return None if actor is None or actor.ended else actor

    def _crash(self, fault: Deadly) -> None:
        if (actor := self._present(fault.actor)) is not None:
            self.lose(actor, fault.what)

    def lose(self, actor: VirtualActor, what: str) -> None:
        """The actor is gone now, and the others notice it after the time of detection."""
        scheduler = self._scheduler
        self._record(actor.name, what)
        if not self._detection:
            self._notice(actor, f"{what} at {self._now()}")
            return
        scheduler.lose(actor)
        scheduler.running += 1
        scheduler.queue.at(scheduler.queue.now + self._detection, (self._detect, actor, f"{what} at {self._now()}"))

    def _detect(self, actor: VirtualActor, what: str) -> None:
        self._scheduler.running -= 1
        self._notice(actor, what)

    def _notice(self, actor: VirtualActor, what: str) -> None:
        scheduler, interrupts = self._scheduler, self.essential(actor.name)
        if interrupts and not (self.loses and is_worker(actor.name)):
            raise WorkerFailed(actor.name, f"it {what}, as scheduled, and the run cannot go on without it")
        if not actor.ended:
            scheduler.lose(actor)
        if not interrupts:
            for other in scheduler.actors.values():
                scheduler.mailroom.deliver(other, Delivery(actor.name, Message(other.port.topic("lost"), text=actor.name)))
        if self.loses is not None:
            self.loses(actor.name, interrupts)

    def _now(self) -> str:
        return f"{self._scheduler.queue.now:.9g} s of virtual time"

    def _stall(self, fault: Stall | HoldGIL) -> None:
        if (actor := self._present(fault.actor)) is not None:
            self._record(actor.name, fault.what)
            self._scheduler.stall(actor, fault.duration)

    def _hold(self, fault: HoldGIL) -> None:
        """A stall in which nothing that others send is received, and nothing that was sent leaves."""
        self._stall(fault)
        if self._present(fault.actor) is None or self._network is None:
            return
        for other in self._scheduler.actors:
            if other != fault.actor:
                self._block(fault.actor, other, fault.duration)

    def _slow(self, fault: SlowDisk) -> None:
        if self._present(fault.actor) is not None:
            self._record(fault.actor, fault.what)
            self._disks.setdefault(fault.actor, []).append((self._scheduler.queue.now + fault.duration, fault.seconds))

    def _cut(self, fault: Disconnect) -> None:
        self._record(fault.a, fault.what)
        self._scheduler.faults.cut(fault, self._scheduler.queue.now)
        self._block(fault.a, fault.b, fault.duration)

    def _block(self, a: str, b: str, duration: float) -> None:
        mailroom, queue = self._scheduler.mailroom, self._scheduler.queue
        mailroom.block(a, b, True)
        queue.at(queue.now + duration, (lambda *_: mailroom.block(a, b, False), None, None))

    def _begin(self, fault: Loss) -> None:
        self._record(self._first(), fault.what)
        self._losses.begin(fault)

    def _leave(self, fault: Leave) -> None:
        if self._present(fault.actor) is None:
            return
        self._record(fault.actor, fault.what)
        self.leaves(fault.actor)
        if fault.notice < math.inf:
            self._scheduler.queue.at(self._scheduler.queue.now + fault.notice, (self._expire, fault.actor, None))

    def _expire(self, name: str, _: None) -> None:
        if (actor := self._present(name)) is not None:
            self.lose(actor, "crashed at the end of its notice")

    def _join(self, fault: Join) -> None:
        self._record(self._first(), fault.what)
        self.joins(fault)

    def _fates(self, sender: str, receiver: str) -> Callable[[str], tuple[float, ...]]:
        here, there = self._names(sender), self._names(receiver)
        loss = self._network.loss if self._network is not None and here[1] != there[1] else 0.0
        return self._losses.of_datagrams(sender, receiver, here, there, loss)

    def _lost(self, sender: str, receiver: str, topic: str) -> None:
        self._record(sender, f"a message to {receiver} was lost")
        self._scheduler.faults.lose(sender, receiver, topic, self._scheduler.queue.now)

    def _names(self, actor: str) -> tuple[str, ...]:
        """The names under which a fault may refer to `actor`, its host and its site."""
        if self._network is None:
            return (actor,)
        host = self._network.host_of(actor, self._workers)
        site = self._network.sites[self._network.site_of(host, self._workers)]
        return actor, f"host/{host}", f"site/{site.name}"

    def _record(self, actor: str, what: str) -> None:
        self._scheduler.record(Faulted(self._scheduler.queue.now, actor, what))


def _ignore(change: object) -> None:
    """Who nobody lets leave stays until its notice ends, and nobody joins."""
