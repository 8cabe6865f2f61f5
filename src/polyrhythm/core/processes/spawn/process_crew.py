"""The crew of a run in real processes that may change: its processes, and the memory that they share.

`LaunchedRun` has one, and gives its `lead` the messages of workers about the crew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import is_worker, rank_of
from polyrhythm.core.kernel.view import NextView, View, ViewChange
from polyrhythm.core.processes.runtime.crew_lead import CrewLead
from polyrhythm.core.processes.spawn.step_counts import StepCounts
from polyrhythm.core.processes.spawn.supervisor import Supervisor
from polyrhythm.core.shared_memory import SharedSegment
from polyrhythm.errors import WorkerFailed

_SEGMENTS = 4
"""A worker that computes for long opens the memory of a view when others are some views further."""


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

    What a worker has completed is known from `counts`, or from its events where there are none.

    `observer` is notified of each change before anybody else. Implements `CrewStaff`.
    """

    def __init__(
        self, job: Job, supervisor: Supervisor, place: Location, shares: bool, observer: CrewObserver, counts: StepCounts | None = None
    ) -> None:
        self.changes = not job.crew.fixed
        self.lead = CrewLead(job, View.of(workers(job.workers)), self)
        self._most = job.crew.most
        self._supervisor = supervisor
        self._place = place
        self._shares = shares
        self._observer = observer
        self._segments: deque[SharedSegment] = deque()
        self._steps: dict[str, Stepped] = {}
        self._counts = counts

    def freeze(self) -> None:
        """Let nobody join or leave any more: the run is to end."""
        if self.changes:
            self.lead.authority.freeze()

    def lose(self, name: str, why: str) -> None:
        """The worker `name` is lost."""
        try:
            self.lead.lose(name, why)
        except WorkerFailed as problem:
            self._observer.failed(problem)

    def results(self, lost: Sequence[str]) -> dict[str, Message | None]:
        """The results of all who have ended well; of those that are `lost`, where the crew may change, what they had counted."""
        children = self._supervisor.children.items()
        found = {name: child.result for name, child in children if is_worker(name) and name not in lost}
        return found if not self.changes else found | {name: _departure(self._steps[name]) for name in lost if name in self._steps}

    def stepped(self, event: Stepped) -> None:
        """A worker has taken a step."""
        self._steps[event.actor] = event

    def completed(self, name: str) -> int | None:
        """The steps that it has taken, as far as that has come here."""
        if self._counts is not None:
            return self._counts.completed(name)
        return self._steps[name].clock if name in self._steps else None

    def close(self) -> None:
        """Give the memory back."""
        while self._segments:
            self._segments.popleft().close()

    @property
    def everybody(self) -> list[str]:
        """All that were started, servers too."""
        return list(self._supervisor.children)

    def send(self, names: Iterable[str], message: Message) -> None:
        """Send it over the links of those whose processes live."""
        children = self._supervisor.children
        for name in list(names):
            if not children[name].dead:
                children[name].link.send_control(message)

    def hire(self, name: str) -> None:
        """Start a process on the device of an earlier worker of that place."""
        if self._counts is not None:
            self._counts.begin(name)
        self._supervisor.add(name, rank_of(name) % self._most)

    def dismiss(self, name: str) -> None:
        """Kill its process."""
        self._supervisor.kill(name)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make `call` in the loop."""
        self._observer.after(seconds, call)

    def fail(self, problem: WorkerFailed) -> None:
        """End the run."""
        self._observer.failed(problem)

    def describe(self, change: ViewChange) -> NextView:
        """The notice: all are at one place, and may share memory."""
        self._observer.changed(change)
        places = ((self._place.site, self._place.host),) * change.after.size
        return NextView(change, places, self._memory(change.after.size))

    def _memory(self, size: int) -> str:
        """Where the members of the next view find the memory that they share; empty if they share none."""
        if not self._shares or size < 2:
            return ""
        while len(self._segments) >= _SEGMENTS:
            self._segments.popleft().close()
        self._segments.append(SharedSegment.create(size))
        return self._segments[-1].path


def _departure(last: Stepped) -> Message:
    """The result of a worker that was lost after that step."""
    return Message("result", (float(last.clock), float(last.samples), 0.0), '{"names": [], "metrics": {}}')
