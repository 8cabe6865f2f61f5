"""The `Work` of a collective that is made of messages: the program waits for it in the runtime, so that others continue meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from torch.futures import Future

from polyrhythm.core.kernel.latch import Latch
from polyrhythm.core.torch_private.one_process import at_end_of_backward, backward_pass
from polyrhythm.process_group.group_work import GroupWork, PeerWork
from polyrhythm.process_group.messages.calls import IssuedCall
from polyrhythm.process_group.messages.desk import Desk
from polyrhythm.process_group.messages.party import BytesSent, Doing

_UNLIMITED = timedelta(0)


class MessageWork(GroupWork):
    """What a program has issued. Its callbacks are called when the program waits for it, in its own thread."""

    def __init__(self, desk: Desk, call: IssuedCall, outputs: Any) -> None:
        GroupWork.__init__(self, outputs)
        self.call = call
        self.done = Latch()
        """Opened when it is done, well or not."""
        self._desk = desk
        self._future: AwaitedFuture | None = None
        self.tally = BytesSent()

    async def carry(self, do: Callable[[], Doing]) -> None:
        """Do it; an error is kept for those who wait."""
        since = self._desk.port.now()
        try:
            await do()
        except Exception as error:
            self.error = error
        self._desk.record(self.call, self.tally.nbytes, since)
        self.done.open()

    def wait(self, timeout: timedelta = _UNLIMITED) -> bool:
        """Return when it is done; raises its error. Raises DistBackendError after a `timeout`, in virtual time."""
        if not self.done.is_open:
            self._desk.wait(self.done, self.call, timeout.total_seconds())
        if not self.done.is_open:
            raise self.call.late_wait(self._desk.rank, timeout.total_seconds())
        if self._future is not None and not self._future.done():
            self._desk.unsettled.remove(self)
            self._future.complete(self.outputs, self.error)
        if self.error is not None:
            raise self.error
        return True

    def is_completed(self) -> bool:
        """True if it is done; a look that finds it unfinished takes some virtual time."""
        if not self.done.is_open:
            self._desk.look()
        return self.done.is_open

    def get_future(self) -> Future[Any]:
        """The outputs, when they are there.

        Within a backward pass the caller may be C++, whose wait would let nobody continue: it is completed at the end of the pass, before.
        Other futures that C++ makes of it are plain ones: before a program waits for one of those, its desk completes what it can.
        """
        if self._future is None:
            self._future = AwaitedFuture(self.wait)
            self._desk.unsettled.append(self)
            if backward_pass() >= 0:
                at_end_of_backward(self.settle)
        return self._future

    def settle(self) -> None:
        """Wait until it is done, and complete the future; an error is passed on through it."""
        with suppress(Exception):
            self.wait()


class ReceiveWork(MessageWork, PeerWork):
    """A receive that is made of messages."""


class AwaitedFuture(Future[Any]):
    """A future whose wait is the runtime's, and so are those of the futures that are chained to it."""

    def __new__(cls, await_it: Callable[[], bool]) -> AwaitedFuture:
        return super().__new__(cls)

    def __init__(self, await_it: Callable[[], bool]) -> None:
        super().__init__()
        self._await_it = await_it

    def wait(self) -> Any:
        """The value, when it is there; raises the error."""
        self._await_it()
        return super().wait()

    def then(self, callback: Callable[[Future[Any]], Any]) -> AwaitedFuture:
        """The value of `callback`, which is called when this one is done."""
        chained = AwaitedFuture(self._await_it)

        def call(_: Future[Any]) -> None:
            try:
                value = callback(self)
            except Exception as error:
                chained.set_exception(error)
            else:
                chained.set_result(value)

        self.add_done_callback(call)
        return chained

    def complete(self, value: Any, error: BaseException | None) -> None:
        """It is done: call what is chained."""
        if self.done():
            return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(value)
