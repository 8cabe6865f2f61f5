"""The coroutines of an actor's program: run in the background or waited for, but always one after the other."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.serial_queue import SerialQueue
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.runtime.executor import ActorExecutor


@dataclass(frozen=True, slots=True, eq=False)
class QueuedCoroutine:
    """A coroutine, an effect that it has awaited before it came here, and the completion of a program that waits for it."""

    coroutine: Coroutine[Effect[Any], Any, Any]
    pending: Effect[Any] | None = None
    completion: Completion | None = None


class ProgramQueue:
    """Gives coroutines to `actor` in the loop's thread; only `expect` and `quiet` are for the program's."""

    def __init__(self, actor: ActorExecutor) -> None:
        self._actor = actor
        self._queue: SerialQueue[QueuedCoroutine] = SerialQueue()
        self._expected = 0
        self._ended = 0
        self._closed = False

    def expect(self) -> None:
        """Count a coroutine that is being queued and will not be waited for."""
        self._expected += 1

    @property
    def quiet(self) -> bool:
        """True if everything that was expected has ended, and well."""
        # each count has one writer; the error is set before the second one moves
        return self._expected == self._ended and self._queue.error is None

    def take(self, item: QueuedCoroutine) -> None:
        """Run it when all before it have ended; close it if the queue is closed."""
        if self._closed:
            item.coroutine.close()
            return
        self._queue.put(item)
        self._admit()

    def close(self) -> None:
        """Close the coroutines that have not started, and take no more."""
        self._closed = True
        for item in self._queue.clear():
            item.coroutine.close()

    def _admit(self) -> None:
        item = self._queue.admit()
        if item is None:
            return
        if self._queue.error is None:
            self._actor.start("program", item.coroutine, lambda value, error: self._end(item, value, error), item.pending)
        else:  # after a failure the others are dropped, and the error goes to the program
            item.coroutine.close()
            self._end(item, None, self._queue.error if item.completion is None else self._queue.take_error())

    def _end(self, item: QueuedCoroutine, value: Any, error: BaseException | None) -> None:
        if item.completion is None:
            self._queue.leave(error)
            self._ended += 1
        else:
            self._queue.leave()
            item.completion.finish(value, error)
        self._admit()
