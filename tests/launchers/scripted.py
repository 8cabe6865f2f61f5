"""An engine whose tasks are threads that follow a script: a list of acts for each rank, the next of which begins when it starts again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from polyrhythm.core.kernel.crew import FIXED, Crew
from polyrhythm.core.kernel.events import AnyEvent, Reported
from polyrhythm.core.kernel.job import Ending, Job
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of, worker
from polyrhythm.core.processes.runtime import failure
from polyrhythm.core.processes.store.attempt import StoreTarget
from polyrhythm.core.processes.store.store_client import StoreClient
from polyrhythm.errors import RunError
from polyrhythm.launchers.driver_link import DriverLink
from polyrhythm.launchers.messages import Beginning, ended
from polyrhythm.launchers.protocol import Loss, TaskOrder

Act = Callable[["Actor"], None]


@dataclass(slots=True)
class Actor:
    """A task on stage: its link to the driver, and what it received about its attempt."""

    name: str
    link: DriverLink
    engine: Scripted
    beginning: Beginning | None = None

    def begin(self) -> bool:
        """Wait for an attempt; whether there is one."""
        beginning = self.link.next_attempt()
        self.beginning = beginning or self.beginning
        return beginning is not None


def ends(actor: Actor) -> None:
    """Record something, and end well."""
    while actor.begin():
        actor.link.record(Reported(1.0, actor.name, 1, {"loss": 1.0}, 0))
        results: dict[str, Message | None] = {actor.name: Message("result", (1.0, 2.0))}
        actor.link.send(ended(actor.name, Ending(results, 10, 2, 1.5)))


def leads(actor: Actor) -> None:
    """Begin a run of a crew that changes, or find the door of the one who has, and end well when all have come."""
    while actor.begin():
        beginning = actor.beginning
        assert beginning is not None
        first = beginning.founders > 0
        if first:
            actor.link.send(Message("door", (7.0,), "127.0.0.1"))
            actor.engine.founders = beginning.founders
        _until(lambda: actor.link.door() is not None)
        actor.engine.doors.append(actor.link.door())
        _until(lambda: len(actor.engine.doors) == len(actor.engine.scripts) - actor.engine.missing)
        actor.link.send(Message("entered", text=actor.name))
        ending = Ending({actor.name: Message("result", (1.0, 2.0))}, 10, 2, 1.5, first="worker/0")
        actor.link.send(ended(actor.name, ending))


def _until(reached: Callable[[], bool]) -> None:
    while not reached():
        threading.Event().wait(0.01)


def dies(actor: Actor) -> None:
    """Fall in the midst of an attempt; the engine says so."""
    actor.begin()
    actor.link.follow(lambda: (7, 1))
    actor.link.record(Reported(1.0, actor.name, 1, {"loss": 2.0}, 0))
    actor.engine.losses_to_come.append(Loss(rank_of(actor.name), "killed by signal 9 (SIGKILL)"))


def vanishes(actor: Actor) -> None:
    """Fall in the midst of an attempt, and nobody says why."""
    actor.begin()


def raises(error: BaseException) -> Act:
    """Fail with `error`, and wait for another attempt."""

    def act(actor: Actor) -> None:
        while actor.begin():
            actor.link.send(failure.failure_message(actor.name, error))

    return act


def survives(error: BaseException) -> Act:
    """Fail with `error` in the first attempt, and end well in the second."""

    def act(actor: Actor) -> None:
        if actor.begin():
            actor.link.send(failure.failure_message(actor.name, error))
        ends(actor)

    return act


def is_replaced(actor: Actor) -> None:
    """Fall in the midst of an attempt, and be started again by the engine before anybody has noticed."""
    actor.begin()
    actor.engine.replace(rank_of(actor.name))


def falls_after_failing(error: BaseException) -> Act:
    """Fail with `error`, then fall too, while others still work."""

    def act(actor: Actor) -> None:
        actor.begin()
        actor.link.send(failure.failure_message(actor.name, error))
        actor.engine.losses_to_come.append(Loss(rank_of(actor.name), "killed by signal 9 (SIGKILL)"))

    return act


def survives_late(error: BaseException, seconds: float) -> Act:
    """As `survives`, but the first failure comes after so many seconds."""

    def act(actor: Actor) -> None:
        if actor.begin():
            threading.Event().wait(seconds)
            actor.link.send(failure.failure_message(actor.name, error))
        ends(actor)

    return act


def waits_for_others(actor: Actor) -> None:
    """Come to the store of each attempt, and wait there for what nobody sets."""
    while actor.begin():
        try:
            _wait_at_store(actor)
        except (RunError, TimeoutError) as problem:
            actor.link.send(failure.failure_message(actor.name, problem))


def _wait_at_store(actor: Actor) -> None:
    assert actor.beginning is not None
    assert actor.engine.order is not None
    target = StoreTarget(actor.beginning.host, actor.beginning.port, bytes.fromhex(actor.engine.order.secret))
    client = StoreClient(actor.name, lambda: target, 30.0, "the store")
    try:
        client.get(["what nobody sets"], 30.0)
    finally:
        client.close()


def sleeps(actor: Actor) -> None:
    """Never come."""


def falls_before(actor: Actor) -> None:
    """Fall before it comes; the engine says so."""


@dataclass(slots=True)
class Scripted:
    """`scripts[rank]` are the acts of a rank, one for each time it is started."""

    scripts: Sequence[list[Act]]
    restarts: int = 2
    startup: float = 20.0
    threads: int = 1
    timeout: float | None = None
    echoes: bool = False
    starts_alone: bool = True
    losses_to_come: list[Loss] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    seen: list[tuple[str, Beginning]] = field(default_factory=list)
    stages: list[threading.Thread] = field(default_factory=list)
    order: TaskOrder | None = None
    address: str = "127.0.0.1"
    founders: int = 0
    doors: list[tuple[str, int] | None] = field(default_factory=list)
    missing: int = 0
    """So many tasks of a crew never come."""

    def driver_address(self) -> str:
        return self.address

    def start(self, order: TaskOrder) -> Scripted:
        self.order = order
        self.restart(list(range(order.workers)))
        return self

    def losses(self) -> list[Loss]:
        found, self.losses_to_come = self.losses_to_come, []
        return found

    def restart(self, ranks: list[int]) -> list[int]:
        for rank in ranks:
            self.started.append(rank)
            act = self.scripts[rank].pop(0)
            if act is falls_before:
                self.losses_to_come.append(Loss(rank, "out of memory"))
            elif act is not sleeps:
                self.stages.append(threading.Thread(target=self._play, args=(worker(rank), act)))
                self.stages[-1].start()
        return ranks

    def replace(self, rank: int) -> None:
        """Start the next act of `rank` unasked, and only once when the driver asks for it too."""
        self.restart([rank])
        self.scripts[rank].insert(0, sleeps)

    def close(self, seconds: float) -> None:
        for stage in self.stages:
            stage.join()

    def _play(self, name: str, act: Act) -> None:
        assert self.order is not None
        link = DriverLink(self.order, name, on_loss=lambda: None)
        try:
            link.register()
            actor = Actor(name, link, self)
            act(actor)
            if actor.beginning is not None:
                self.seen.append((name, actor.beginning))
        finally:
            link.close()


def job(workers: int, crew: Crew = FIXED) -> Job:
    """A job that only travels: scripted tasks never run it."""
    return Job(workers, 0, _program, _service, _essential, crew=crew)


def _program(context: object) -> None:
    return None


async def _service(port: object, record: object) -> None:
    return None


def _essential(name: str) -> bool:
    return True


def recorded() -> tuple[list[AnyEvent], Callable[[AnyEvent], None]]:
    """A list, and what appends to it."""
    events: list[AnyEvent] = []
    return events, events.append
