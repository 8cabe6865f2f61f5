"""The engine of a process group on several hosts: messages over authenticated connections, and shared memory within each host."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from threading import Event, current_thread, main_thread
from typing import Any, TypeVar

from torch import Tensor
from torch.futures import Future

from polyrhythm.core.kernel.effects import Effect
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.processes.runtime.completion import Completion
from polyrhythm.core.processes.runtime.driving import drive, serves_alike
from polyrhythm.errors import DeadlockError, RunError
from polyrhythm.process_group.collectives import flattened
from polyrhythm.process_group.group_work import PeerWork
from polyrhythm.process_group.host_collectives import HostCollectives
from polyrhythm.process_group.layout import HostLayout
from polyrhythm.process_group.messages.calls import IssuedCall, line_of_caller
from polyrhythm.process_group.messages.matching import Matching
from polyrhythm.process_group.network import HostNetwork
from polyrhythm.process_group.work_queue import shown

T = TypeVar("T")
_UNLIMITED = timedelta(0)
_TIMED_OUT = (
    "the other ranks did not come to the same collective before the timeout was over: look for a rank that is stuck or took another "
    "branch, or give init_process_group a longer one."
)


class HostsWork(PeerWork):
    """A send or receive of `tensors` with `peer` (None: anyone), over the network; `source` is the sender, once it is known."""

    def __init__(self, call: IssuedCall, outputs: list[Tensor], peer: int | None, seconds: float) -> None:
        PeerWork.__init__(self, outputs)
        self.call, self.peer = call, peer
        self._seconds = seconds
        self._done = Event()
        self._future: Future[Any] = Future()

    def finish(self, error: BaseException | None = None) -> None:
        """It is done, or failed; the first call counts. In the loop's thread."""
        if not self._done.is_set():
            self.error = error
            self._done.set()
            if error is None:
                self._future.set_result(self.outputs)
            else:
                self._future.set_exception(RunError(str(error)))

    def wait(self, timeout: timedelta = _UNLIMITED) -> bool:
        """Return when it is done. Raises RunError when the other was lost or did not come in time."""
        seconds = timeout.total_seconds() if timeout > _UNLIMITED else self._seconds
        if not self._done.wait(seconds):
            raise RunError(f"Timed out: {self.call.what} was not done within {seconds:g} s. Look for a rank that does not come to it.")
        if self.error is not None:
            raise self.error
        return True

    def is_completed(self) -> bool:
        """True if it is done, well or not."""
        return self._done.is_set()

    def get_future(self) -> Future[Any]:
        """The tensors, when they are there."""
        return self._future


class BetweenHosts:
    """The part of rank `layout.rank` of a group with the topics `topic`, in `network`; `seconds` are the time for a wait."""

    def __init__(self, network: HostNetwork, topic: str, layout: HostLayout, seconds: float) -> None:
        self._network, self._topic, self._layout, self._seconds = network, topic, layout, seconds
        self._node = network.node
        self._names = layout.names
        self._members = tuple(map(worker, layout.names))
        self._deadline = 0.0
        self._reason = ""
        self._pending: set[HostsWork] = set()
        self._waits: set[Completion] = set()
        self._issued = 0
        self._matching = Matching(self._node.port, f"{topic}/to")
        self.collectives = HostCollectives(layout, self._node.port, self._members, self._complete, self._call)
        network.use(self, self._lose)
        self._start(self._matching.listen(), lambda value, error: None)

    @contextmanager
    def over(self, seconds: float, what: object) -> Iterator[None]:
        self._deadline = time.monotonic() + seconds
        self._issued += 1
        watch = self._layout.watch
        try:
            with nullcontext() if watch is None else watch.over(seconds, what):
                yield
        except (RunError, DeadlockError) as problem:
            self._reason = self._reason or f"At {what}: {problem}"
            raise RunError(f"{self._reason.rstrip('.')}. This process group is of no use any more: start all ranks again.") from None

    def send(self, tensor: Tensor, to: int, tag: int) -> HostsWork:
        """Begin to send a copy; done when it has left."""
        port, name = self._node.port, self._members[to]
        message = Message(f"{self._topic}/to", (self._layout.rank, tag), shown([tensor]), (flattened(tensor).view(-1).clone(),))
        work = self._work(f"send to rank {self._names[to]}", tensor, to)

        async def deliver() -> None:
            await port.send(name, message)
            await port.flush(name)

        self._begin(work, deliver)
        return work

    def receive(self, tensor: Tensor, source: int | None, tag: int) -> HostsWork:
        whom = "anyone" if source is None else f"rank {self._names[source]}"
        work = self._work(f"receive from {whom}", tensor, source)
        self._node.loop.call(lambda: self._begin(work, self._matching.take(source, tag, work)))
        return work

    def abort(self) -> None:
        self._node.loop.call(lambda: self._fail("The process group was aborted."))

    def close(self) -> None:
        self._layout.close()
        self._network.leave(self)

    def _work(self, what: str, tensor: Tensor, peer: int | None) -> HostsWork:
        return HostsWork(self._call(what, [tensor]), [tensor], peer, self._seconds)

    def _call(self, kind: str, of: Sequence[Tensor]) -> IssuedCall:
        return IssuedCall(kind, shown(of), self._topic, self._members, self._issued, line_of_caller())

    def _begin(self, work: HostsWork, do: Callable[[], Coroutine[Effect[Any], Any, None]]) -> None:
        """Do it in the loop, in the order of these calls."""

        def done(value: Any, error: BaseException | None) -> None:
            self._pending.discard(work)
            work.finish(error)

        def begin() -> None:
            gone = [self._names.index(rank) for rank in self._network.lost if rank in self._names]
            self._pending.add(work)
            self._node.actor.start("transfer", do(), done)
            for rank in gone:
                self._fail_those_with(rank)

        self._node.loop.call(begin)

    def _start(self, doing: Coroutine[Effect[Any], Any, Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._node.loop.call(lambda: self._node.actor.start("collective", doing, done))

    def _complete(self, doing: Coroutine[Effect[Any], Any, T]) -> T:
        """Block until it has run to its end. Raises RunError at the deadline, and when a member is lost."""
        wait, loop = Completion(), self._node.loop

        def begin() -> None:
            if self._reason:
                doing.close()
                wait.finish(None, RunError(self._reason))
            else:
                timer = loop.after(max(0.0, self._deadline - time.monotonic()), lambda: wait.finish(None, RunError(_TIMED_OUT)))

                def done(value: Any, error: BaseException | None) -> None:
                    timer.cancel()
                    wait.finish(value, error)

                self._node.actor.start("collective", doing, done)

        self._waits.add(wait)
        try:  # the program serves the loop itself where it can, so that no thread has to wake another
            if not (current_thread() is main_thread() and serves_alike("cpu") and drive(loop, begin, wait, self._node.fail)):
                loop.call(begin)
            result: T = wait.wait()
            return result
        finally:
            self._waits.discard(wait)

    def _lose(self, rank: int) -> None:
        """The process of `rank` of the job is lost; in the loop's thread."""
        if rank in self._names:
            self._fail(f"Rank {rank} was lost: its connection with this rank ended. Look at what it printed last.")
            self._fail_those_with(self._names.index(rank))

    def _fail(self, why: str) -> None:
        """End the waits of collectives."""
        self._reason = self._reason or why
        self._layout.give_up()
        for wait in list(self._waits):
            wait.finish(None, RunError(self._reason))

    def _fail_those_with(self, rank: int) -> None:
        lost = {self._names.index(each) for each in self._network.lost if each in self._names} | {rank}
        others = set(range(len(self._names))) - {self._layout.rank}
        for work in list(self._pending):
            if work.peer == rank or (work.peer is None and others <= lost):
                self._pending.discard(work)
                work.finish(RunError(f"Rank {self._names[rank]} was lost before {work.call.what} was done. Start all ranks again."))
