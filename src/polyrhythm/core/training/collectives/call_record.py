"""The results of a worker's collective calls that another worker may need: one that joins, or that was interrupted in the last call.

`Together` makes each call through it; a change of the crew hands its state over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from polyrhythm.core.kernel.view import ViewChange, ViewChanged
from polyrhythm.core.strategy.step_exchanges import cannot_reform
from polyrhythm.core.training.position import DataPosition
from polyrhythm.core.trees import StateTree
from polyrhythm.errors import WorkloadError

T = TypeVar("T")

Path = tuple[tuple[int, int], ...]

_MOST = 10_000
"""The calls that are kept at most, of a training function whose loops are not known."""


class CallRecord:
    """The calls of one worker whose place in its training function is `position`.

    A worker that joins makes the calls on its way to the others anew, without them: it gets what they got. `completed` counts calls;
    without `keeps` none are kept, since no worker joins.
    """

    def __init__(self, position: DataPosition, keeps: bool = False, handed: StateTree = None) -> None:
        self.position = position
        self.keeps = keeps
        self.completed = 0
        self.reform: Callable[[ViewChange], bool] = cannot_reform
        self.kept: list[tuple[Path, StateTree]] = []
        self.last: StateTree = None
        self.joins = handed is not None
        self.under_way = False
        self._again: deque[StateTree] = deque()
        if handed is not None:
            self.kept = [(tuple(map(tuple, path)), result) for path, result in handed["calls"]["kept"]]
            self.completed = handed["calls"]["completed"]
            self._again.extend(result for _, result in self.kept)

    def made(self, call: Callable[[], T]) -> T:
        """The result of `call`, made once more in the next view where the loss of a worker interrupts it at all."""
        if self.joins and self.position.returning:
            if not self._again:
                raise WorkloadError(
                    "A worker that joins the run has called a method that waits for all workers, such as worker.mean or worker.barrier, "
                    "which the others have not called at this place: write `for epoch in worker.epochs(n):` around the epochs, and make "
                    "the same calls at every worker."
                )
            return self._again.popleft()  # type: ignore[no-any-return]
        self.under_way = True
        try:
            return self._made(call)
        finally:
            self.under_way = False

    def _made(self, call: Callable[[], T]) -> T:
        while True:
            try:
                result = call()
                break
            except ViewChanged as interruption:
                if not self.reform(interruption.change):
                    return self.last  # type: ignore[no-any-return]
        if self.keeps:
            self._keep(result)
        return result

    def export(self) -> StateTree:
        """What another worker needs of the calls so far."""
        self._prune()
        return {"completed": self.completed, "kept": self.kept, "last": self.last}

    def take_over(self, state: StateTree) -> None:
        """Continue with the calls of a donor, which has completed one more."""
        self.completed, self.last = state["completed"], state["last"]

    def _keep(self, result: StateTree) -> None:
        self.completed += 1
        self.last = result
        self._prune()
        self.kept.append((self.position.path, result))

    def _prune(self) -> None:
        """Forget calls in iterations that are over: nobody passes them on its way here."""
        now = self.position.path
        self.kept = [(path, result) for path, result in self.kept if now[: len(path)] == path][-_MOST:]
