"""An attempt with a crew that changes: a task that is lost is started again alone, and joins the others, who have not stopped.

The workers lead themselves, as under `pr.join`. The driver says who begins, and where the first member's door is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.crew_authority import ATTEMPTS
from polyrhythm.core.kernel.events import AnyEvent, CrewChanged, Faulted, Stepped
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.processes.rendezvous.joined_crew import LOST
from polyrhythm.errors import NoProgressError, PolyrhythmError, RunError, WorkerFailed, sentence
from polyrhythm.launchers.messages import Beginning
from polyrhythm.launchers.roster import Roster, WorkerTask

_AGAIN_SECONDS = 1.0
"""The loss of a worker may not be known to the others yet when its successor calls at their door."""


class CrewAttempt:
    """The attempt of that `number`, with those tasks of `roster` that are there; others come later.

    A lost one is started again if the `crew` replaces it, and the engine starts single tasks again: `alone`.
    """

    def __init__(self, roster: Roster, number: int, crew: Crew, alone: bool) -> None:
        self.ending: Ending | None = None
        self.fatal: PolyrhythmError | None = None
        self._roster = roster
        self._number = number
        self._crew = crew
        self._alone = alone
        here = [task for task in roster.tasks if task.here]
        self._first = here[0].rank
        self._founding = {task.rank for task in here}
        self._founders = {worker(rank) for rank in range(len(here))}
        self._known = set(self._founders)  # who is or was in a view
        self._begun: set[int] = set()
        self._errors: list[PolyrhythmError] = []
        self._again: dict[int, float] = {}
        self._door: Message | None = None
        self._epoch = 0
        self._unlucky = 0  # tasks in succession that fell before they were admitted
        self._failures = 0  # newcomers in succession that failed before their first step
        self._faults: set[tuple[str, str]] = set()
        self._lost: dict[str, None] = {}
        self._steps: dict[str, Stepped] = {}
        for task in here:
            self._begin(task, len(here) if task.rank == self._first else 0)

    def takes_part(self, task: WorkerTask) -> bool:
        return task.rank in self._begun

    def came(self, task: WorkerTask) -> None:
        """It joins the others, if it is no lost one whose place stays empty."""
        if self._crew.replace or not self._lost:
            self._again[task.rank] = 0.0

    def received(self, task: WorkerTask, message: Message) -> None:
        if message.topic == "entered":
            task.member = message.text
            self._founding.discard(task.rank)
        elif message.topic == "door":
            self._door = message
            self._send([*self._begun], message)

    def conclude(self, task: WorkerTask, outcome: Ending | PolyrhythmError) -> None:
        founding, member = task.rank in self._founding, task.member in self._known
        self._begun.discard(task.rank)
        self._founding.discard(task.rank)
        if isinstance(outcome, Ending):
            self.ending = self._whole(outcome) if outcome.first == task.member else self.ending
        elif founding or member:
            if self._failed_early(task, outcome):
                self._count_failure(outcome)
            else:
                self._errors.append(outcome)
            if member:
                self._lost[task.member] = None
            self._call_again(task)
        else:
            self._refused(task, outcome)
        if not self._active or (founding and not isinstance(outcome, Ending) and self._first in self._founding | {task.rank}):
            self._end()

    def _refused(self, task: WorkerTask, problem: PolyrhythmError) -> None:
        """A newcomer was not admitted: it calls again, where others may be the cause."""
        if isinstance(problem, RunError):
            self._call_again(task)
        else:
            self._unlucky += 1
            notify(f"The run continues without {task.name}, which cannot join it: {sentence(problem)}.")

    def _failed_early(self, task: WorkerTask, problem: PolyrhythmError) -> bool:
        """True if its program has failed on its way to the others, who continue."""
        lost = isinstance(problem, RunError) and not (isinstance(problem, WorkerFailed) and problem.trace)
        return not lost and task.member not in self._founders and task.member not in self._steps

    def _count_failure(self, problem: PolyrhythmError) -> None:
        self._failures += 1
        if self._crew.replace and self._failures == ATTEMPTS:
            self.fatal = NoProgressError(
                f"{ATTEMPTS} workers that joined the run one after the other failed before their first step. Remove the cause, and start "
                f"the run again. The last one: {problem}"
            )

    def _call_again(self, task: WorkerTask) -> None:
        if self._crew.replace:
            self._again[task.rank] = time.monotonic() + _AGAIN_SECONDS

    def fell(self, task: WorkerTask) -> None:
        self._unlucky += task.member not in self._known
        self._again.pop(task.rank, None)
        task.member = ""

    def admits(self, event: AnyEvent) -> bool:
        """Each change comes from all workers, and their losses from the engine too, which knows why."""
        match event:
            case Stepped():
                self._steps[event.actor] = event
                self._failures = 0 if event.actor not in self._founders else self._failures
            case CrewChanged():
                if event.epoch <= self._epoch:
                    return False
                self._epoch = event.epoch
                self._known |= set(event.members)
                self._unlucky = 0 if event.joined else self._unlucky
            case Faulted():
                fresh = (event.actor, event.what) not in self._faults
                self._faults.add((event.actor, event.what))
                return fresh and event.what != LOST
        return True

    def replaceable(self, lost: Mapping[int, WorkerFailed]) -> list[int]:
        return list(lost) if self._alone and self._crew.replace and self._unlucky < ATTEMPTS and self._active else []

    def look(self) -> None:
        """Have those join that are ready, while there is somebody to join."""
        now = time.monotonic()
        for task in [self._roster.tasks[rank] for rank, due in self._again.items() if due < now]:
            if task.here and self._active:
                del self._again[task.rank]
                self._begin(task, 0)

    @property
    def over(self) -> bool:
        return not self._active and (self.ending is not None or not self._begun)

    def cause(self, lost: Mapping[int, WorkerFailed]) -> PolyrhythmError:
        """An error that is no loss, else the last one: the others have continued after those before."""
        own = [error for error in self._errors if not isinstance(error, RunError) or (isinstance(error, WorkerFailed) and error.trace)]
        return next(iter([*own, *self._errors[-1:]]), RunError("All workers have left the run before its end."))

    def _whole(self, ending: Ending) -> Ending:
        """The ending with those who were lost, and what they had counted."""
        ending.lost = [*dict.fromkeys([*self._lost, *ending.lost])]
        for name, last in self._steps.items():
            ending.results.setdefault(name, Message("result", (float(last.clock), float(last.samples), 0.0)))
        return ending

    def close(self) -> None:
        """The door is the first member's."""

    @property
    def _active(self) -> bool:
        """True if somebody is there who is, or will be, a member of the first view or a later one."""
        return any(rank in self._founding or self._roster.tasks[rank].member in self._known for rank in self._begun)

    def _begin(self, task: WorkerTask, founders: int) -> None:
        task.member = ""
        self._begun.add(task.rank)
        beginning = Beginning(self._number, "", 0, self._number > 1, founders)
        task.send(Message("begin", text=msgspec.json.encode(beginning).decode()))
        if self._door is not None:
            task.send(self._door)

    def _send(self, ranks: list[int], message: Message) -> None:
        for rank in ranks:
            self._roster.tasks[rank].send(message)

    def _end(self) -> None:
        """Nobody is left whom others could join."""
        self._send([*self._begun], Message("over"))
