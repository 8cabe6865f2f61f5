"""Ends the waits for a process that has ended, and those that last longer than they may, with an error."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from polyrhythm.core.shared_memory import MemoryGroup
from polyrhythm.errors import RunError
from polyrhythm.process_group.rendezvous import SharedMembership

_LOOK_SECONDS = 0.5
_log = logging.getLogger(__name__)


class Watchdog:
    """Looks after the waits of a group: a thread that sleeps until another member's process ends, and looks at the clock now and then.

    `on_end` is called with the rank of a member whose process has ended.
    """

    def __init__(self, group: MemoryGroup, shared: SharedMembership, names: Sequence[int], on_end: Callable[[int], None]) -> None:
        self._group = group
        self._on_end = on_end
        self._names = names
        self._deadline: float | None = None
        self._reason = ""
        self._stop = os.eventfd(0)
        self._members = self._open(shared)
        self._thread = threading.Thread(target=self._look, name="polyrhythm-watch", daemon=True)
        self._thread.start()

    @contextmanager
    def over(self, seconds: float, what: object) -> Iterator[None]:
        """A context that may wait for `seconds`. Raises RunError with the reason if it gave up; `what` is formatted only then."""
        self._deadline = time.monotonic() + seconds
        try:
            yield
        except ConnectionAbortedError as problem:
            sentence = f"At {what}: {problem}. This process group is of no use any more: start all ranks again."
            raise RunError(self._reason or sentence) from None
        finally:
            self._deadline = None

    def close(self) -> None:
        """Stop watching and end the thread."""
        if self._stop >= 0:
            os.eventfd_write(self._stop, 1)
            self._thread.join()
            os.close(self._stop)
            self._stop = -1

    def _look(self) -> None:
        poll = select.poll()
        for descriptor in (self._stop, *self._members):
            poll.register(descriptor, select.POLLIN)
        while True:
            left = _LOOK_SECONDS if self._deadline is None else self._deadline - time.monotonic()
            ended = [descriptor for descriptor, _ in poll.poll(1000 * min(max(left, 0.001), _LOOK_SECONDS))]
            if self._stop in ended:
                break
            for descriptor in ended:
                poll.unregister(descriptor)
                self._lose(self._members[descriptor])
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline:
                self._give_up()
        for descriptor in self._members:
            os.close(descriptor)

    def _lose(self, rank: int) -> None:
        self._reason = self._reason or (
            f"Rank {self._names[rank]} was lost: its process ended while others of its process group waited for it. "
            "Look at what it printed last, and start all ranks again."
        )
        self._group.lose(rank)
        self._on_end(rank)

    def _give_up(self) -> None:
        self._reason = self._reason or (
            "The other ranks of this process group did not come to the same collective before the timeout was over: look for a rank that "
            "is stuck or took another branch, or give init_process_group a longer one."
        )
        for rank in range(self._group.ranks):
            self._group.lose(rank)

    def _open(self, shared: SharedMembership) -> dict[int, int]:
        """A descriptor for each other member's process, and whose it is; it can be read when the process has ended."""
        members: dict[int, int] = {}
        for rank, pid in enumerate(shared.pids):
            if pid != os.getpid():
                try:
                    members[os.pidfd_open(pid)] = rank
                except ProcessLookupError:
                    self._lose(rank)
                except OSError as problem:  # an old kernel, or a sandbox; then only the timeout ends a wait for it
                    _log.warning("The end of rank %d's process will not be noticed before the timeout: %s", rank, problem)
        return members
