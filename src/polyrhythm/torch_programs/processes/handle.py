"""The process of a rank, as the process of the scheduler sees it: what goes in and comes out, and how it ends."""

from __future__ import annotations

import math
import select
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from polyrhythm.core.kernel.effects import Effect, Spawn, Wait
from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.processes.runtime.failure import exit_reason
from polyrhythm.core.simulator import threads
from polyrhythm.errors import WorkerFailed
from polyrhythm.torch_programs.processes.forks import Forks
from polyrhythm.torch_programs.processes.packing import pack, unpack

ProcessReply = tuple[Any, ...]
"""What the process says: a word, and what belongs to it."""


@dataclass(slots=True)
class CarriedCoroutine:
    """A coroutine of the process, which is continued there: the scheduler continues it as one of its own."""

    process: RankHandle
    number: int

    def send(self, value: Any) -> Effect[Any]:
        """Continue it until it waits: for what. Raises StopIteration at its end, and its error."""
        return self.process.step(self.number, value)

    def close(self) -> None:
        """End it where it is."""
        self.process.end_coroutine(self.number)


class RankHandle:
    """The process of the rank `name`, one of `forks`, which begins with what is `given`."""

    def __init__(self, name: str, forks: Forks, given: bytes) -> None:
        self.name = name
        self.moment: Callable[[], tuple[float, int]] = lambda: (0.0, 0)
        """The virtual second, and the bytes that were sent so far: it learns them whenever it is told something."""
        self.told: Callable[[str, Any], None] = lambda what, of: None
        """Called with what it says without waiting for an answer."""
        self._over = False
        self._ahead = False
        """True if the coroutine that was continued last goes on by itself, since what it has asked for gives nothing."""
        self._latches: dict[int, Latch] = {}
        self._forks = forks
        self._number, self._link = forks.fork()
        self._poll = select.poll()
        self._poll.register(self._link, select.POLLIN)
        self._send(given)

    def tell(self, what: str, *of: Any) -> None:
        """Send it an order or an answer."""
        self._send(pack((what, of, *self.moment())))

    def hear(self) -> ProcessReply:
        """What it says next, when what needs no answer has been done. Raises WorkerFailed if it dies, DeadlockError if it is stuck."""
        while True:
            what, *of = self._receive()
            if what == "opened":
                self._latches.pop(of[0]).open()
            elif what == "told":
                self.told(of[0], of[1])
            else:
                return (what, *of)

    def step(self, number: int, value: Any) -> Effect[Any]:
        """Continue its coroutine `number` until it waits: for what. Raises StopIteration at its end, and its error."""
        if not self._ahead:
            self.tell("step", number, value)
        what, of, self._ahead = self.hear()
        if what == "stopped":
            raise StopIteration
        if what == "raised":
            raise of
        if what == "spawns":
            return Spawn(of[0], CarriedCoroutine(self, of[1]))  # type: ignore[arg-type]
        if what == "waits":
            self._latches[of] = Latch()
            return Wait(self._latches[of])
        return of  # type: ignore[no-any-return]

    def end_coroutine(self, number: int) -> None:
        """Have it end a coroutine where it is."""
        if not self._over:
            self._ahead = False
            self.tell("close", number)
            while self.hear()[0] != "closed":
                continue  # it had gone on

    def give_up(self) -> None:
        """End it where it is: it will not be heard again."""
        self._over = True
        self._forks.kill(self._number)

    def close(self) -> None:
        """End it, and all that it has started."""
        self._over = True
        self._link.close()
        self._forks.kill(self._number)
        self._forks.wait(self._number)

    def _send(self, content: bytes) -> None:
        try:
            self._link.send_bytes(content)
        except OSError:
            raise self._died() from None

    def _receive(self) -> ProcessReply:
        """What it says next; it is watched as long as it computes, or waits for another process."""
        used, asked = math.inf, False
        while True:
            while not self._poll.poll(1000 * threads.STANDSTILL_SECONDS):
                if not asked:  # where no Python runs there, it answers when it can
                    self.tell("look")
                    asked = True
            try:
                what, *of = unpack(self._link.recv_bytes())
            except (EOFError, OSError):
                raise self._died() from None
            if what != "looked":
                return (what, *of)
            before, used, asked = used, of[0], False
            if used - before < threads.LEAST * threads.STANDSTILL_SECONDS and before < math.inf and of[1]:
                self.give_up()
                raise threads.stuck(self.name, 2 * threads.STANDSTILL_SECONDS, of[1])

    def _died(self) -> WorkerFailed:
        self._over = True
        with suppress(OSError):
            self._link.close()
        return WorkerFailed(self.name, exit_reason(self._forks.wait(self._number)))
