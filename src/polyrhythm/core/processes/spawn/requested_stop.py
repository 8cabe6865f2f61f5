"""The end of a run that its launcher was asked to stop: after the same step of all workers, with a last checkpoint, or without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyrhythm.core.kernel.message import Message
from polyrhythm.core.processes.runtime.stop_point import StopVote
from polyrhythm.core.processes.spawn.supervisor import Supervisor
from polyrhythm.core.processes.transport.loop import EventLoop
from polyrhythm.errors import Stopped


class RequestedStop:
    """`problem` is the signal, `end` is called with it, once it is known what has become of the checkpoint; all in the loop's thread."""

    def __init__(self, problem: Stopped, supervisor: Supervisor, workers: Sequence[str], end: Callable[[Stopped], None]) -> None:
        self.problem = problem
        self._supervisor = supervisor
        self._vote = StopVote(list(workers))
        self._stopped: set[str] = set()
        self._workers = set(workers)
        self._end = end

    def begin(self, loop: EventLoop, grace: float) -> None:
        """Ask all workers how far they are; end after `grace` seconds in any case."""
        if grace <= 0:
            self._end(self.problem)
            return
        self.problem.kept = False
        loop.after(grace, lambda: self._end(self.problem))
        self._supervisor.broadcast(Message("hold"))

    def received(self, name: str, message: Message) -> None:
        """A worker has said how far it is, or has come to where it stops."""
        (number,) = message.numbers
        if message.topic == "held":
            if name in self._workers:
                self._vote.add(name, int(number))
            if self._vote.hopeless:
                self._end(self.problem)
            elif not self._vote.missing:
                self._supervisor.broadcast(Message("stop", (float(self._vote.step),)))
            return
        self._stopped.add(name)
        if not number:
            self._end(self.problem)
        elif self._stopped >= self._workers:
            self.problem.kept = True
            self._end(self.problem)

    def lose(self) -> None:
        """A worker or a server is gone: no checkpoint can be complete any more."""
        self._end(self.problem)
