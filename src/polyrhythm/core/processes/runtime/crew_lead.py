"""The lead of a crew that changes: carries out what its authority decides, by messages to the processes of the run.

The launcher of a run (`ProcessCrew`) has one, and the first member of a run that processes have joined (`JoinedCrew`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from polyrhythm.core.kernel.crew_authority import ATTEMPTS, CrewAuthority
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.view import NextView, View, ViewChange
from polyrhythm.core.processes.runtime.node_crew import ARRIVE, CHANGE, CLOSE, END, ENTERED, FINISH, HELD, HOLD, RELEASE, SETTLE
from polyrhythm.errors import WorkerFailed


class CrewStaff(Protocol):
    """The processes of a run, as the lead of its crew reaches them."""

    @property
    def everybody(self) -> Sequence[str]:
        """All whose processes may be there."""

    def send(self, names: Iterable[str], message: Message) -> None:
        """Send `message` to those of `names` whose processes are there."""

    def hire(self, name: str) -> None:
        """Begin a new worker."""

    def dismiss(self, name: str) -> None:
        """End a worker that was not admitted."""

    def describe(self, change: ViewChange) -> NextView:
        """The notice of `change`, which comes next."""

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make `call` so many seconds later."""

    def fail(self, problem: WorkerFailed) -> None:
        """The run cannot continue."""

    def completed(self, name: str) -> int | None:
        """The steps that `name` has completed, where that is known."""


class CrewLead:
    """The lead of the workers of `job`, who are now those of `view`. Everything happens in the loop's thread.

    `epoch` is that of the view that was announced last, and `dismissed` are those who were not admitted.
    """

    def __init__(self, job: Job, view: View, staff: CrewStaff) -> None:
        self.authority = CrewAuthority(job.crew, view, self, steps=staff.completed)
        self.epoch = view.epoch
        self.dismissed: set[str] = set()
        self._essential: Callable[[str], bool] = job.essential
        self._staff = staff
        self._unlucky = 0

    def present(self, name: str) -> bool:
        """True if `name` is a worker of the present view."""
        return self.authority.view.present(name)

    def join(self) -> None:
        """A worker is to join."""
        self.authority.join()

    def leave(self, name: str) -> bool:
        """`name` leaves with notice. False if it is the last that is there, or no worker."""
        return self.authority.leave(name)

    def lose(self, name: str, why: str) -> None:
        """The worker `name` is lost. Raises WorkerFailed if the run cannot continue."""
        authority = self.authority
        if not self.present(name):
            if name in authority.coming:
                self._unlucky += 1
                if self._unlucky == ATTEMPTS:
                    authority.crew = replace(authority.crew, replace=False)
            authority.lose(name, False)
            return
        interrupts = authority.interrupts(name, self._essential(name))
        if interrupts and authority.ended:
            raise WorkerFailed(name, f"{why}, and others have taken their last step, so that none can be repeated without it")
        if not interrupts:
            self._staff.send(self._staff.everybody, Message("lost", text=name))
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
        elif message.topic == CLOSE:
            self.authority.close()
        elif message.topic == ENTERED:
            self.authority.entered(name)
        elif message.topic == HELD:
            self.authority.held(name, *numbers)

    # The hands of the authority

    def hire(self, name: str) -> None:
        self._staff.hire(name)

    def dismiss(self, name: str) -> None:
        self.dismissed.add(name)
        self._staff.dismiss(name)

    def hold(self, names: Iterable[str]) -> None:
        self._staff.send(names, Message(HOLD, (float(self.epoch),)))

    def settle(self, names: Iterable[str], step: int) -> None:
        self._staff.send(names, Message(SETTLE, (float(self.epoch), float(step))))

    def release(self, names: Iterable[str]) -> None:
        """Release all: the crew does not change any more, and some may be on their way to the cut."""
        self._staff.send(self.authority.view.members, Message(RELEASE, (float(self.epoch),)))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self._staff.after(seconds, call)

    def fail(self, problem: WorkerFailed) -> None:
        self._staff.fail(problem)

    def end(self, names: Iterable[str]) -> None:
        self._staff.send(names, Message(END, (float(self.epoch),)))

    def change(self, change: ViewChange) -> None:
        self.epoch = change.after.epoch
        self._unlucky = 0 if change.joined else self._unlucky
        text = msgspec.json.encode(self._staff.describe(change)).decode()
        coming = self.authority.coming
        self._staff.send([name for name in self._staff.everybody if name not in coming], Message(CHANGE, (float(self.epoch),), text))
