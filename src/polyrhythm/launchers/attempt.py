"""One attempt at a run, as its driver sees it: which tasks take part, how they find each other, and how the attempt ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.kernel.job import Ending
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.store.store_server import StoreServer
from polyrhythm.errors import PolyrhythmError, WorkerFailed
from polyrhythm.launchers.messages import Beginning
from polyrhythm.launchers.roster import Roster, WorkerTask


class TaskAttempt(Protocol):
    """An attempt. Everything happens in the loop's thread.

    `ending` is that of the worker which has the result, once it has ended well; `fatal` is an error that ends the run for all.
    """

    ending: Ending | None
    fatal: PolyrhythmError | None

    def takes_part(self, task: WorkerTask) -> bool:
        """True if `task` has begun its part, and that has not ended."""

    def came(self, task: WorkerTask) -> None:
        """`task` is ready, when others have begun."""

    def received(self, task: WorkerTask, message: Message) -> None:
        """A message of `task` about where the others find it."""

    def conclude(self, task: WorkerTask, outcome: Ending | PolyrhythmError) -> None:
        """The part of `task` has ended so."""

    def fell(self, task: WorkerTask) -> None:
        """The process of `task` is lost."""

    def admits(self, event: AnyEvent) -> bool:
        """True if `event`, which a worker has recorded, is new to the record."""

    def replaceable(self, lost: Mapping[int, WorkerFailed]) -> list[int]:
        """The ranks of those `lost` that may be started again now, while the others continue."""

    def look(self) -> None:
        """Do what is due."""

    @property
    def over(self) -> bool:
        """True if nothing more is to come of it."""

    def cause(self, lost: Mapping[int, WorkerFailed]) -> PolyrhythmError:
        """Why it has failed; `lost` are tasks whose processes are, in the order in which they fell."""

    def close(self) -> None:
        """Give everything back."""


class FixedAttempt:
    """An attempt with one number of workers: all tasks of `roster` begin together, and meet at a store; the first worker has the result.

    `number` counts the attempts from 1; later ones continue from the newest checkpoint.
    """

    def __init__(self, roster: Roster, number: int) -> None:
        self.ending: Ending | None = None
        self.fatal: PolyrhythmError | None = None
        self._roster = roster
        self._outcomes: dict[int, Ending | PolyrhythmError] = {}
        self._store = StoreServer(roster.ip, len(roster.tasks), roster.secret, rounds=1)
        beginning = Beginning(number, *self._store.address, number > 1)
        for task in roster.tasks:
            task.send(Message("begin", text=msgspec.json.encode(beginning).decode()))

    def takes_part(self, task: WorkerTask) -> bool:
        return task.rank not in self._outcomes

    def came(self, task: WorkerTask) -> None:
        """It waits for the next attempt."""

    def received(self, task: WorkerTask, message: Message) -> None:
        """They meet at the store."""

    def conclude(self, task: WorkerTask, outcome: Ending | PolyrhythmError) -> None:
        self._outcomes[task.rank] = outcome
        if not isinstance(outcome, Ending):
            self._store.give_up(outcome)  # those who are still joining would wait for this one
        elif task.rank == 0:
            self.ending = outcome

    def fell(self, task: WorkerTask) -> None:
        """It is started again before the next attempt."""

    def admits(self, event: AnyEvent) -> bool:
        return True

    def replaceable(self, lost: Mapping[int, WorkerFailed]) -> list[int]:
        return []

    def look(self) -> None:
        """Nothing is."""

    @property
    def over(self) -> bool:
        return len(self._outcomes) == len(self._roster.tasks)

    def cause(self, lost: Mapping[int, WorkerFailed]) -> PolyrhythmError:
        """The first loss, else the first error of a worker that does not report another one's."""
        errors = {rank: outcome for rank, outcome in self._outcomes.items() if isinstance(outcome, PolyrhythmError)}
        own = {rank: error for rank, error in errors.items() if not isinstance(error, WorkerFailed) or error.actor == worker(rank)}
        return next(iter([*(errors.get(rank, why) for rank, why in lost.items()), *own.values(), *errors.values()]))

    def close(self) -> None:
        self._store.close()
