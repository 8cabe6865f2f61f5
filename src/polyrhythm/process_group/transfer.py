"""A send or receive of a process group whose members share memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

from torch import Tensor
from torch.futures import Future

from polyrhythm.process_group.collectives import flattened, put_back
from polyrhythm.process_group.group_work import PeerWork

_UNLIMITED = timedelta(0)


class Mover(Protocol):
    """Moves the bytes of transfers."""

    def wait(self, work: Transfer, seconds: float) -> None:
        """Return when `work` is done. Raises RunError after `seconds` (0: those of the group)."""

    def move(self) -> bool:
        """Move what can be moved without waiting."""


class Transfer(PeerWork):
    """A send or receive of one tensor, with `peer` (None: anyone); `source` is the sender's rank in the group, once it is known."""

    def __init__(self, mover: Mover, what: str, tensor: Tensor, peer: int | None, tag: int) -> None:
        PeerWork.__init__(self, [tensor])
        self.peer, self.tag = peer, tag
        self.what = what
        self.flat = flattened(tensor)
        self.nbytes = self.flat.numel() * self.flat.element_size()
        self.address = self.flat.data_ptr()
        self.moved = -1
        """The bytes that were moved so far; -1 before a send has begun."""
        self.done = False
        self._tensor = tensor
        self._mover = mover
        self._future: Future[Any] | None = None

    def receive_from(self, source: int) -> None:
        """It is complete: show what came."""
        self.source = source
        put_back(self._tensor, self.flat)
        self.done = True

    def fail(self, error: Exception) -> None:
        """It will not be complete."""
        self.error, self.done = error, True

    def announce(self) -> None:
        """Complete the future, if there is one."""
        if self._future is not None and not self._future.done():
            if self.error is None:
                self._future.set_result(self.outputs)
            else:
                self._future.set_exception(self.error)

    def wait(self, timeout: timedelta = _UNLIMITED) -> bool:
        """Return when it is done. Raises RunError when the other was lost or did not come in time."""
        if not self.done:
            self._mover.wait(self, timeout.total_seconds())
        if self.error is not None:
            raise self.error
        return True

    def is_completed(self) -> bool:
        """True if it is done, well or not."""
        if not self.done:
            self._mover.move()
        return self.done

    def get_future(self) -> Future[Any]:
        """The tensor, when it is there."""
        if self._future is None:
            self._future = Future()
            if self.done:
                self.announce()
        return self._future
