"""The coroutines of an actor's program: begun beside it or waited for, they run one after the other."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from polyrhythm.kernel.effects import Effect
from polyrhythm.kernel.serial_queue import SerialQueue
from polyrhythm.processes.runtime.completion import Completion
from polyrhythm.processes.runtime.executor import ActorExecutor


@dataclass(frozen=True, slots=True, eq=False)
class QueuedCoroutine:
    """A coroutine, what it has `asked` before it came here, and the completion of a program that waits for it."""

    coroutine: Coroutine[Effect[Any], Any, Any]
    asked: Effect[Any] | None = None
    completion: Completion | None = None


class ProgramQueue:
    """Gives them to `actor` in the loop's thread; only `expect` and `quiet` are for the program's."""

    def __init__(self, actor: ActorExecutor) -> None:
        self._actor = actor
        self._line: SerialQueue[QueuedCoroutine] = SerialQueue()
        self._expected = 0
        self._ended = 0

    def expect(self) -> None:
        """One is being handed over that nobody will wait for."""
        self._expected += 1

    @property
    def quiet(self) -> bool:
        """Whether everything has ended that was expected, and well."""
        # each count has one writer; the error is set before the second one moves
        return self._expected == self._ended and self._line.error is None

    def take(self, turn: QueuedCoroutine) -> None:
        """Run it when all before it have ended."""
        self._line.join(turn)
        self._line.call(turn)
        self._admit()

    def close(self) -> None:
        """Send away whoever has not begun."""
        for turn in self._line.clear():
            turn.coroutine.close()

    def _admit(self) -> None:
        turn = self._line.admit()
        if turn is None:
            return
        if self._line.error is None:
            self._actor.start("program", turn.coroutine, lambda value, error: self._end(turn, value, error), turn.asked)
        else:  # after a failure the others are dropped, and the program is told
            turn.coroutine.close()
            self._end(turn, None, self._line.error if turn.completion is None else self._line.take_error())

    def _end(self, turn: QueuedCoroutine, value: Any, error: BaseException | None) -> None:
        if turn.completion is None:
            self._line.leave(error)
            self._ended += 1
        else:
            self._line.leave()
            turn.completion.finish(value, error)
        self._admit()
