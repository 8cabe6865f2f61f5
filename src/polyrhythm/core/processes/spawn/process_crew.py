"""The crew of a run in real processes that may change: carries out what its authority decides, by messages to the processes.

`LaunchedRun` has one, and gives it the messages of workers about the crew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from polyrhythm.core.kernel.crew_authority import CrewAuthority
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import is_worker, rank_of
from polyrhythm.core.kernel.view import NextView, View, ViewChange
from polyrhythm.core.processes.runtime.node_crew import ARRIVE, CHANGE, END, FINISH, HELD, HOLD, RELEASE, SETTLE
from polyrhythm.core.processes.spawn.supervisor import Supervisor
from polyrhythm.core.shared_memory import SharedSegment
from polyrhythm.errors import WorkerFailed

_SEGMENTS = 4
"""A worker that computes for long opens the memory of a view when others are some views further."""
_ATTEMPTS = 3
"""So many newcomers in succession may be lost before they are admitted; then there is something wrong with all, and no more are started."""


class CrewObserver(Protocol):
    """An observer of the crew that is notified in the loop's thread."""

    def changed(self, change: ViewChange) -> None:
        """The crew changes; nobody is notified yet."""

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make `call` so many seconds later."""

    def failed(self, error: WorkerFailed) -> None:
        """The run cannot continue."""


class ProcessCrew:
    """The workers of `job`; `place` is where all are, and they share memory if that `shares`. Everything happens in the loop's thread.

    `observer` is notified of each change before anybody else. `epoch` is that of the view that was announced last, and `dismissed`
    are those who were not admitted.
    """

    def __init__(self, job: Job, supervisor: Supervisor, place: Location, shares: bool, observer: CrewObserver) -> None:
        self.changes = not job.crew.fixed
        self.authority = CrewAuthority(job.crew, View.of(workers(job.workers)), self, steps=self._completed)
        self.epoch = 0
        self.dismissed: set[str] = set()
        self._job = job
        self._supervisor = supervisor
        self._place = place
        self._shares = shares
        self._observer = observer
        self._segments: deque[SharedSegment] = deque()
        self._steps: dict[str, Stepped] = {}
        self._unlucky = 0

    def essential(self, name: str) -> bool:
        """True if the others cannot go on without `name` in this view: the first is who has the result."""
        return self._job.essential(name) or name == self.authority.view.first

    def present(self, name: str) -> bool:
        """True if `name` is a worker of the present view."""
        return self.authority.view.present(name)

    def join(self) -> None:
        """A worker is to join."""
        self.authority.join()

    def freeze(self) -> None:
        """Let nobody join or leave any more: the run is to end."""
        if self.changes:
            self.authority.freeze()

    def leave(self, name: str) -> bool:
        """`name` leaves with notice. False if it is the last that is there, or no worker."""
        stays = [member for member in self.authority.view.members if member != name and member not in self.authority.leaving]
        if stays and self.present(name):
            self.authority.leave(name)
        return bool(stays) and self.present(name)

    def lose(self, name: str, why: str) -> None:
        """The worker `name` is lost. Raises WorkerFailed if the run cannot continue."""
        authority = self.authority
        if not self.present(name):
            if name in authority.coming:
                self._unlucky += 1
                if self._unlucky == _ATTEMPTS:
                    authority.crew = replace(authority.crew, replace=False)
                authority.lose(name, False)
            else:
                self._renew(name)  # it had left, and was handing its state over
            return
        interrupts = self.essential(name)
        if interrupts and authority.ended:
            raise WorkerFailed(name, f"{why}, and others have taken their last step, so that none can be repeated without it")
        if not interrupts:
            self._supervisor.broadcast(Message("lost", text=name))
        authority.lose(name, interrupts)

    def received(self, name: str, message: Message) -> None:
        """A worker's message about the crew; one of an earlier view counts no more, but that of a newcomer does."""
        epoch, *numbers = map(int, message.numbers)
        if epoch != self.epoch and name not in self.authority.coming:
            return
        if message.topic == ARRIVE:
            self.authority.arrive(name)
        elif message.topic == FINISH:
            self.authority.finish(name)
        elif message.topic == HELD:
            self.authority.held(name, *numbers)

    def results(self, lost: Sequence[str]) -> dict[str, Message | None]:
        """The results of all who have ended well; of those that are `lost`, where the crew may change, what they had counted."""
        children = self._supervisor.children.items()
        found = {name: child.result for name, child in children if is_worker(name) and name not in lost}
        return found if not self.changes else found | {name: _departure(self._steps[name]) for name in lost if name in self._steps}

    def stepped(self, event: Stepped) -> None:
        """A worker has taken a step."""
        self._steps[event.actor] = event

    def _completed(self, name: str) -> int | None:
        return self._steps[name].clock if name in self._steps else None

    def close(self) -> None:
        """Give the memory back."""
        while self._segments:
            self._segments.popleft().close()

    # The hands of the authority

    def hire(self, name: str) -> None:
        self._supervisor.add(name, rank_of(name) % self._job.crew.most)

    def dismiss(self, name: str) -> None:
        self.dismissed.add(name)
        self._supervisor.kill(name)

    def hold(self, names: Iterable[str]) -> None:
        self._send(names, Message(HOLD, (float(self.epoch),)))

    def settle(self, names: Iterable[str], step: int) -> None:
        self._send(names, Message(SETTLE, (float(self.epoch), float(step))))

    def release(self, names: Iterable[str]) -> None:
        """Release all: the crew does not change any more, and some may be on their way to the cut."""
        self._send(self.authority.view.members, Message(RELEASE, (float(self.epoch),)))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self._observer.after(seconds, call)

    def fail(self, problem: WorkerFailed) -> None:
        self._observer.failed(problem)

    def end(self, names: Iterable[str]) -> None:
        self._send(names, Message(END, (float(self.epoch),)))

    def change(self, change: ViewChange) -> None:
        self.epoch = change.after.epoch
        self._unlucky = 0 if change.joined else self._unlucky
        self._observer.changed(change)
        places = ((self._place.site, self._place.host),) * change.after.size
        notice = NextView(change, places, self._memory(change.after.size))
        message = Message(CHANGE, (float(self.epoch),), msgspec.json.encode(notice).decode())
        self._send((name for name in self._supervisor.children if name not in self.authority.coming), message)

    def _renew(self, lost: str) -> None:
        """Let the others wait no longer for what a worker that has left was handing over."""
        before = self.authority.view
        self.authority.view = View(before.epoch + 1, before.members, before.joined, before.left)
        self.change(ViewChange(before, self.authority.view, frozenset([lost])))

    def _memory(self, size: int) -> str:
        """Where the members of the next view find the memory that they share; empty if they share none."""
        if not self._shares or size < 2:
            return ""
        while len(self._segments) >= _SEGMENTS:
            self._segments.popleft().close()
        self._segments.append(SharedSegment.create(size))
        return self._segments[-1].path

    def _send(self, names: Iterable[str], message: Message) -> None:
        children = self._supervisor.children
        for name in list(names):
            if not children[name].dead:
                children[name].link.send_control(message)


def _departure(last: Stepped) -> Message:
    """The result of a worker that was lost after that step."""
    return Message("result", (float(last.clock), float(last.samples), 0.0), '{"names": [], "metrics": {}}')
