"""The order of a group's collectives: as issued, in the caller's thread where nothing is before them, else in the queue's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, Protocol

import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from polyrhythm.errors import RunError
from polyrhythm.process_group.group_work import GroupWork

CollectiveBody = Callable[[], None]
_UNLIMITED = timedelta(0)
_SHOWN = 4


class Watch(Protocol):
    """Ends waits that last too long."""

    def over(self, seconds: float, what: object) -> AbstractContextManager[None]:
        """A context that may wait for `seconds`. Raises RunError with the reason if it gave up."""


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One collective: its body, its usual name, its output tensors, and the seconds that it may wait for others."""

    body: CollectiveBody
    name: str
    outputs: Any
    seconds: float

    def __str__(self) -> str:
        """The collective and its outputs: "all_reduce of float32 [16]"."""
        return f"{self.name} of {shown(self.outputs)}" if any(True for _ in _tensors(self.outputs)) else self.name


def shown(outputs: Any) -> str:
    """The types and shapes of tensors: "float32 [16], int64 [2, 3]"."""
    shapes = [f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}" for tensor in _tensors(outputs)]
    return f"{', '.join(shapes[:_SHOWN])}{', ...' if len(shapes) > _SHOWN else ''}"


def _tensors(outputs: Any) -> Iterator[Tensor]:
    if isinstance(outputs, Tensor):
        yield outputs
    else:
        for each in outputs or ():
            yield from _tensors(each)


class PendingWork(GroupWork):
    """A call that was accepted. Python callers see its own error; futures, which torch carries through C++, see its text."""

    def __init__(self, call: CollectiveCall) -> None:
        GroupWork.__init__(self, call.outputs)
        self._call = call
        self._done = threading.Event()
        self._trigger: Future[None] = Future()
        self._future: Future[Any] | None = None

    def fulfil(self, watch: Watch) -> None:
        """Do it, here and now."""
        try:
            with watch.over(self._call.seconds, self._call):
                self._call.body()
        except BaseException as error:
            self.error = error

    def announce(self) -> None:
        """Wake the threads that wait, and run here the callbacks of the future."""
        self._done.set()
        self._trigger.set_result(None)

    def wait(self, timeout: timedelta = _UNLIMITED) -> bool:
        """Return when it is done. Raises RunError when a rank was lost or did not come in time."""
        if not self._done.wait(timeout.total_seconds() if timeout > _UNLIMITED else None):
            raise RunError(f"Timed out: the collective was not done within the {timeout.total_seconds():g} s that wait() was given.")
        if self.error is not None:
            raise self.error
        return True

    def get_future(self) -> Future[Any]:
        """The outputs, when they are there."""
        if self._future is None:
            self._future = self._trigger.then(self._outcome)
        return self._future

    def is_completed(self) -> bool:
        """True if it is done, well or not."""
        return self._done.is_set()

    def _outcome(self, _: Future[None]) -> Any:
        if self.error is not None:
            raise self.error
        return self.outputs


class CompletedWork(GroupWork):
    """A call that was done before its `Work` was returned."""

    def wait(self, timeout: timedelta = _UNLIMITED) -> bool:
        """Return at once, since it is done."""
        return True

    def get_future(self) -> Future[Any]:
        """The outputs, which are there."""
        future: Future[Any] = Future()
        future.set_result(self.outputs)
        return future

    def is_completed(self) -> bool:
        """True, since it is done."""
        return True


class WorkQueue:
    """One call after another. The thread starts with the first call that need not be waited for."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._queue: SimpleQueue[PendingWork | None] = SimpleQueue()
        self._waiting = 0
        self._count = threading.Lock()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None

    def now(self, call: CollectiveCall) -> dist.Work:
        """Do it before returning, after all that was issued before. Raises RunError when a rank was lost or did not come in time."""
        inside = (
            threading.current_thread() is self._thread
        )  # called by something that is chained to a future: what is queued is not waited for
        if self._waiting and not inside:
            promise = self.later(call)
            promise.wait()
            return promise
        with self._turn, self._watch.over(call.seconds, call):
            call.body()
        return CompletedWork(call.outputs)

    def later(self, call: CollectiveCall) -> PendingWork:
        """Do it when its turn comes; returns at once."""
        promise = PendingWork(call)
        with self._count:
            self._waiting += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="polyrhythm-lane", daemon=True)
                self._thread.start()
            self._queue.put(promise)
        return promise

    def close(self) -> None:
        """Finish what was issued, and stop."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (promise := self._queue.get()) is not None:
            with self._turn:
                promise.fulfil(self._watch)
            with self._count:
                self._waiting -= 1
            promise.announce()
