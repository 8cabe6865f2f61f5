"""Tasks that run at the same time, each when what it depends on has finished."""

from __future__ import annotations

from collections.abc import Iterable

from polyrhythm.core.protocols.consistency import Consistency
from polyrhythm.errors import CompositionError


class TaskGraph:
    """Tasks are numbered in the order of their times, from 1 (Li et al., OSDI 2014, section 3.4).

    Task t may start when the tasks that it was added `after` have finished, and where the consistency lets it: `BoundedDelay(τ)` does
    when all tasks up to t - τ - 1 have. Only tasks that have not finished, and gaps between those that have, take memory.
    """

    def __init__(self, consistency: Consistency) -> None:
        self.conditions = consistency.conditions
        self.finished = 0
        """All tasks up to this one have finished."""
        self._later: set[int] = set()
        self._after: dict[int, frozenset[int]] = {}

    def add(self, task: int, after: Iterable[int] = ()) -> None:
        """Another task. Raises CompositionError for one that would wait for itself or a later one, and for one that there is already."""
        needed = frozenset(after)
        if task in self._after or self._is_over(task) or any(other >= task for other in needed):
            raise CompositionError(
                f"Task {task} after {sorted(needed)} could never start: give each a number once, and earlier ones after which."
            )
        self._after[task] = frozenset(other for other in needed if not self._is_over(other))

    def may_start(self, task: int) -> bool:
        """True if what it depends on has finished, and the consistency lets it start."""
        ready = all(self._is_over(other) for other in self._after.get(task, ()))
        return ready and self.conditions.may_proceed(task - 1, self.finished)

    def finish(self, task: int) -> None:
        """A task has finished."""
        self._after.pop(task, None)
        if task > self.finished:
            self._later.add(task)
        while self.finished + 1 in self._later:
            self.finished += 1
            self._later.remove(self.finished)

    def finish_through(self, task: int) -> None:
        """All tasks up to this one have finished."""
        for each in range(self.finished + 1, task + 1):
            self.finish(each)

    @property
    def unfinished(self) -> list[int]:
        """The tasks that were added and have not finished, in order."""
        return sorted(self._after)

    def _is_over(self, task: int) -> bool:
        return task <= self.finished or task in self._later
