"""The node of a process as its program sees it: the program blocks, while the loop's thread works."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison
from polyrhythm.core.kernel.crew_side import CrewSide, FixedCrew
from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.events import Computed, Recorder, Waited
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.errors import CompositionError

T = TypeVar("T")


class NodeContext:
    """A `kernel.job.WorkerContext` over real connections.

    What the program does between two calls is recorded as computing, a call as waiting.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._peers = node.peers
        self._returned = 0.0
        self.port: Port = node.port
        self.record: Recorder = node.record
        self.written: Callable[[], None] = _nothing
        """Called when a part of a checkpoint is written."""
        self.crew: CrewSide = FixedCrew()

    @property
    def bytes_sent(self) -> int:
        """Bytes that this worker has sent so far."""
        return self._peers.bytes_sent

    @property
    def device(self) -> str:
        """The torch device of this worker."""
        return self._node.device

    def time(self) -> float:
        """The seconds since the run began."""
        return self.port.now()

    def charge(self, samples: int) -> None:
        """Nothing: real time has passed."""

    def discard(self) -> None:
        """Nothing: real time has passed."""

    def reach(self, done: float) -> None:
        """Nothing: real time has passed."""

    def charge_merge(self, others: int) -> None:
        """Nothing: real time has passed."""

    def follow(self, model: Any, alone: str) -> None:
        """Each computes in a process of its own."""

    def free(self, compute: Callable[[], T]) -> T:
        return compute()

    def write(self, deed: Callable[[], T]) -> T:
        result = deed()
        self.written()
        return result

    def uncounted(self, compute: Callable[[], T]) -> T:
        return compute()

    def counted(self, compute: Callable[[], T]) -> T:
        return compute()

    def perform(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        """Block until `coroutine` has ended. Raises why the node failed, now or at the next call.

        What the program did before the first call is not recorded: it loaded its data and built its model.
        """
        return self.waited(partial(self._node.complete, coroutine))

    def perform_steps(self, coroutine: Coroutine[Effect[Any], Any, None]) -> None:
        self.perform(coroutine)

    def begin(self, coroutine: Coroutine[Effect[Any], Any, None], done: float) -> None:
        """Run `coroutine` in the background; the next `perform` comes after it, and raises its error."""
        self._node.begin(coroutine)

    def native(self, group: Group) -> bool:
        """True where the members share memory."""
        return group.name in self._node.reducers

    def agree(self, facts: Facts, remedy: str) -> None:
        """Wait until the facts of all workers have come. Raises CompositionError where they differ."""
        if difference := self._differences(facts, remedy):
            raise CompositionError(difference)

    def align(self, alignment: Alignment) -> Message | None:
        """Wait for all workers: None if all hold the same, else what worker 0 holds. Raises CompositionError if one is too far off."""
        if not self._differences(alignment.facts, alignment.remedy):
            return None
        shown = self.perform(alignment.show())
        self.agree(alignment.judge(shown), alignment.remedy)
        return shown

    def compare(self, comparison: Comparison) -> None:
        """Send the comparison, and wait for nobody."""
        self._node.compare(comparison)

    def stopped(self, steps: int) -> None:
        self._node.steps.stopped = True
        self._node.stop_point.end()

    def last_step(self, clock: int) -> int | None:
        """Wait until all workers have said how far they are, if the run was asked to stop."""
        return self._node.stop_point.look(clock)

    def stop(self, kept: bool) -> None:
        """End as the run's launcher has it."""
        self._node.stop_point.on_stop(kept)

    def _differences(self, facts: Facts, remedy: str) -> str:
        return self.waited(partial(self._node.agree, facts, remedy))

    def waited(self, wait: Callable[[], T]) -> T:
        """The result of `wait`; the time before it is recorded as computing, and the time in it as waiting."""
        began, name = self.port.now(), self.port.name
        if self._returned:
            self.record(Computed(began, name, began - self._returned))
        self._node.steps.wait()
        try:
            return wait()
        finally:
            self._returned = self.port.now()
            self._node.steps.compute()
            self.record(Waited(self._returned, name, self._returned - began))


def _nothing() -> None:
    """Nobody waits for this moment."""
