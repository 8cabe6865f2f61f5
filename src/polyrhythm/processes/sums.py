"""Who waits for a sum: the program's thread, or one of the sums' own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from torch import Tensor

from polyrhythm.errors import DeadlockError
from polyrhythm.kernel.effects import Reduction
from polyrhythm.processes.actor import Done
from polyrhythm.processes.collective import Collective


class Sums:
    """Answers an actor's `Reduction` effects through `collective`, once there is one.

    A sum blocks until all have come to it, and the loop must meanwhile hear of those who never will; so what the loop's coroutines
    ask is done in a thread of its own, in the order in which they ask. `why` tells what the node has failed with.
    """

    def __init__(self, name: str, why: Callable[[], BaseException | None]) -> None:
        self.topic = ""
        self._collective: Collective | None = None
        self._gone: dict[int, str] = {}
        self._name = name
        self._why = why
        self._asked: SimpleQueue[tuple[Reduction, Done] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def collective(self) -> Collective | None:
        """What answers, if anything does; to be set in the loop's thread."""
        return self._collective

    @collective.setter
    def collective(self, collective: Collective) -> None:
        self._collective = collective
        # who went while it was set up must not be waited for either
        for rank, how in self._gone.items():
            collective.part(rank, how)
        if self._why() is not None:
            collective.give_up()

    @property
    def waits(self) -> str:
        """What is waited for; empty if nothing is."""
        return f"{self._name} waits for the others in the sum {self.topic!r}" if self.topic else ""

    def here(self, effect: Reduction) -> Tensor | bool | None:
        """The answer, waited for in this thread; None if it is left to messages."""
        if self._collective is None:
            return None
        self.topic = effect.topic
        try:
            return effect.ask(self._collective)
        except ConnectionAbortedError as problem:
            raise self._why() or DeadlockError(f"{self.waits}: {problem}.") from None
        finally:
            self.topic = ""

    def beside(self, effect: Reduction, done: Done) -> bool:
        """Whether `done` will be called with the sum, in another thread; otherwise it is left to messages."""
        if self._collective is None:
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._add, name="polyrhythm sums", daemon=True)
            self._thread.start()
        self._asked.put((effect, done))
        return True

    @property
    def moved(self) -> int:
        """A number that changes whenever a sum gets on."""
        return 0 if self._collective is None else self._collective.moved

    def part(self, rank: int, how: str) -> None:
        """Wait for the worker `rank` no longer."""
        self._gone[rank] = how
        if self._collective is not None:
            self._collective.part(rank, how)

    def give_up(self) -> None:
        """Wait for nobody."""
        if self._collective is not None:
            self._collective.give_up()

    def stop(self) -> None:
        """End the thread; whoever waits in it gives up."""
        if self._thread is not None:
            self._asked.put(None)
            self.give_up()
            self._thread.join()

    def _add(self) -> None:
        while (asked := self._asked.get()) is not None:
            effect, done = asked
            try:
                total = self.here(effect)
            except Exception as problem:  # goes to who asked
                done(None, problem)
            else:
                done(total, None)
