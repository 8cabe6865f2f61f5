"""The tasks of a run as their driver sees them: those that are connected, and the messages that they send."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.transport.addresses import listen_on
from polyrhythm.core.processes.transport.connector import ConnectionFactory
from polyrhythm.core.processes.transport.frame_link import FrameLink, Wiring
from polyrhythm.core.processes.transport.handshake import Credentials
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.core.processes.transport.reception import Reception
from polyrhythm.core.processes.transport.wire import CONTROL, Frame, Tally
from polyrhythm.errors import CompositionError, WireError
from polyrhythm.launchers.protocol import DRIVER, TaskOrder

_REASON_SECONDS = 2.0
"""So long the engine is given to say why a task was lost whose connection has ended."""


@dataclass(slots=True)
class WorkerTask:
    """The task of `rank`: its connection while there is one, what it announced, when its connection ended, the number of its arrival.

    `member` is the name of its worker in a crew that changes, once it has entered that.
    """

    rank: int
    link: FrameLink | None = None
    registered: bool = False
    silent_since: float | None = None
    arrival: int = 0
    member: str = ""

    @property
    def name(self) -> str:
        """The name of the task's worker."""
        return worker(self.rank)

    @property
    def worker(self) -> str:
        """The name of its worker in the run."""
        return self.member or self.name

    @property
    def here(self) -> bool:
        """True if it is connected and has announced itself."""
        return self.link is not None and self.registered

    def send(self, message: Message) -> None:
        """Send `message`, if it is connected."""
        if self.link is not None:
            self.link.send_control(message)


class RosterObserver(Protocol):
    """An observer of tasks, called in the loop's thread."""

    def registered(self, task: WorkerTask) -> None:
        """`task` is connected, and has announced itself."""

    def received(self, task: WorkerTask, message: Message) -> None:
        """`task` has sent another message."""

    def lost(self, task: WorkerTask, reason: str) -> None:
        """Its process or its connection has ended."""


class Roster:
    """Listens at `ip` for `workers` tasks, which `loop` serves."""

    def __init__(self, loop: EventLoop, ip: str, workers: int, observer: RosterObserver) -> None:
        self.tasks = [WorkerTask(rank) for rank in range(workers)]
        self.secret = secrets.token_bytes(32)
        self.arrivals = 0
        self._observer = observer
        self._by_name = {task.name: task for task in self.tasks}
        try:
            listener = listen_on(ip)
        except OSError as problem:
            raise CompositionError(
                f"The driver cannot listen at {ip!r} ({problem.strerror or problem}): give the engine an address of this host that all its "
                "machines can reach."
            ) from problem
        self.ip, self.port = ip, listener.getsockname()[1]
        self._wiring = Wiring()
        factory = ConnectionFactory(loop, Credentials(DRIVER, self.secret), self._wiring, Tally())
        self._reception = Reception(factory, [listener], self._admit, self._by_name.__contains__)

    def order(self, echoes: bool, crew: Crew) -> TaskOrder:
        """The order with which tasks are started: the driver's address, the secret and the number of tasks."""
        return TaskOrder(self.ip, self.port, self.secret.hex(), len(self.tasks), echoes, not crew.fixed, not crew.fixed and crew.replace)

    @property
    def absent(self) -> list[WorkerTask]:
        """The tasks that are not connected."""
        return [task for task in self.tasks if not task.here]

    def broadcast(self, message: Message) -> None:
        """Send `message` to all that are connected."""
        for task in self.tasks:
            task.send(message)

    def lose(self, tasks: Iterable[WorkerTask], reason: str) -> None:
        """The engine has lost `tasks`, those first whose connections ended first."""
        for task in sorted(tasks, key=lambda task: task.silent_since or math.inf):
            self._forget(task)
            task.silent_since = None
            self._observer.lost(task, reason)

    def dismiss(self, task: WorkerTask, latest: int) -> None:
        """Send `task` away if it is one that came up to the arrival number `latest`; it is about to be started again."""
        if task.arrival <= latest:
            self._forget(task)
            task.silent_since = None

    def look(self) -> None:
        """Give up those whose connection has ended, if the engine does not say why."""
        before = time.monotonic() - _REASON_SECONDS
        silent = [task for task in self.tasks if task.silent_since is not None and task.silent_since < before]
        self.lose(silent, "its connection to the driver was lost")

    def close(self) -> None:
        """Give all sockets back."""
        self._reception.close()
        for task in self.tasks:
            self._forget(task)

    def _admit(self, name: str, lane: int, link: FrameLink) -> None:
        if lane:
            raise WireError(f"{name} opened lane {lane}, and tasks have none.")
        task = self._by_name[name]
        if task.here or task.silent_since is not None:  # its predecessor's end was not noticed yet, and others' before it
            silent = [each for each in self.tasks if each.silent_since is not None]
            self.lose([*silent, *([task] if task.here else [])], "its connection to the driver was lost")
        self._forget(task)
        self.arrivals += 1
        task.link, task.silent_since, task.arrival = link, None, self.arrivals
        link.restrict(self._wiring.limits)
        link.on_frame = lambda _, frame: self._receive(task, frame)
        link.on_close = lambda it, why: self._cut_off(task, it)

    def _receive(self, task: WorkerTask, frame: Frame) -> None:
        message = frame.message
        if not frame.flags & CONTROL:
            return
        if message.topic == "registered":
            task.registered = True
            self._observer.registered(task)
        else:
            self._observer.received(task, message)

    def _cut_off(self, task: WorkerTask, link: FrameLink) -> None:
        if task.link is link:
            # one that had not announced itself may try again; if it was lost, its engine says so
            task.silent_since = time.monotonic() if task.registered else None
            task.link, task.registered = None, False

    def _forget(self, task: WorkerTask) -> None:
        link, task.link, task.registered = task.link, None, False
        if link is not None:
            link.close()
