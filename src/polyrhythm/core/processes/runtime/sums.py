"""The threads that wait for sums: the program's thread, or a separate one for each group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue

from torch import Tensor

from polyrhythm.core.kernel.effects import NativeReduction
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.processes.collectives.reducer import GroupReducer
from polyrhythm.core.processes.runtime.executor import Done
from polyrhythm.errors import DeadlockError


class Sums:
    """Makes the sums of an actor's `NativeReduction` effects through the reducer of their group, where there is one.

    A sum blocks until all members have come to it, and the loop must meanwhile learn of those who never will; so sums that the loop's
    coroutines want are made in a thread of the group's own, in the order in which they want them. Groups do not wait for each other.
    `why` returns what the node has failed with.
    """

    def __init__(self, name: str, why: Callable[[], BaseException | None]) -> None:
        self._reducers: dict[str, GroupReducer] = {}
        self._threads: dict[str, _SummingThread] = {}
        self._awaited: dict[str, str] = {}
        self._gone: dict[str, str] = {}
        self._name = name
        self._why = why

    @property
    def reducers(self) -> Mapping[str, GroupReducer]:
        """The reducers that make the sums, by the name of the group; to be set in the loop's thread."""
        return self._reducers

    @reducers.setter
    def reducers(self, reducers: Mapping[str, GroupReducer]) -> None:
        self._reducers = dict(reducers)
        # who went while they were set up must not be waited for either
        for name, how in self._gone.items():
            self.peer_gone(name, how)
        if self._why() is not None:
            self.give_up()

    @property
    def waits(self) -> list[str]:
        """The sums that are waited for, a sentence for each."""
        return [self._sentence(group, topic) for group, topic in sorted(self._awaited.items())]

    def awaits(self, prefix: str) -> bool:
        """True if a sum is waited for under a topic that begins with `prefix`."""
        return any(topic.startswith(prefix) for topic in list(self._awaited.values()))

    def here(self, effect: NativeReduction) -> Tensor | bool | None:
        """The result, waited for in this thread; None if it is left to messages."""
        group = effect.group.name
        reducer = self._reducers.get(group)
        if reducer is None:
            return None
        self._awaited[group] = effect.topic
        try:
            return effect.apply(reducer)
        except ConnectionAbortedError as problem:
            raise self._why() or DeadlockError(f"{self._sentence(group, effect.topic)}: {problem}.") from None
        finally:
            del self._awaited[group]

    def start(self, effect: NativeReduction, done: Done) -> bool:
        """Make the sum in another thread and call `done` with it there; False if it is left to messages."""
        group = effect.group.name
        if group not in self._reducers:
            return False
        if group not in self._threads:
            self._threads[group] = _SummingThread(self.here)
        self._put(effect, done, effect.after)
        return True

    def _put(self, effect: NativeReduction, done: Done, after: tuple[Latch, ...]) -> None:
        """Have the sum made when all of `after` are open."""
        if not after:
            self._threads[effect.group.name].put(effect, done)
        else:
            after[0].when_open(lambda: self._put(effect, done, after[1:]))

    @property
    def moved(self) -> int:
        """A number that changes whenever a sum gets on."""
        return sum(reducer.moved for reducer in self._reducers.values())

    def peer_gone(self, name: str, how: str) -> None:
        """Wait for the actor `name` no longer, in any group."""
        self._gone[name] = how
        for reducer in self._reducers.values():
            reducer.peer_gone(name, how)

    def give_up(self) -> None:
        """Stop waiting for the others."""
        for reducer in self._reducers.values():
            reducer.give_up()

    def stop(self) -> None:
        """End the threads; waits in them are given up."""
        for thread in self._threads.values():
            thread.close()
        if self._threads:
            self.give_up()
        for thread in self._threads.values():
            thread.join()
        self._threads.clear()

    def _sentence(self, group: str, topic: str) -> str:
        return f"{self._name} waits for the others in the sum {topic!r}{f' of the group {group!r}' if group else ''}"


class _SummingThread:
    """A thread in which the sums of one group are made, one after another."""

    def __init__(self, reduce: Callable[[NativeReduction], Tensor | bool | None]) -> None:
        self._reduce = reduce
        self._queue: SimpleQueue[tuple[NativeReduction, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="polyrhythm sums", daemon=True)
        self._thread.start()

    def put(self, effect: NativeReduction, done: Done) -> None:
        """Have the sum made when its turn comes."""
        self._queue.put((effect, done))

    def close(self) -> None:
        """End after what is queued."""
        self._queue.put(None)

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _work(self) -> None:
        while (queued := self._queue.get()) is not None:
            effect, done = queued
            try:
                total = self._reduce(effect)
            except Exception as problem:  # goes to the coroutine that waits
                done(None, problem)
            else:
                done(total, None)
