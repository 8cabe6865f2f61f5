"""Sends and receives of a process group whose members share memory, matched by source and tag in the order of the calls, as in MPI.

Bytes go through rings. Whoever waits moves them, all that are due, in its own thread; a thread of the group moves them while nobody waits,
so that a send is done although the program computes or waits for something else.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.core.shared_memory import RingMemory, Rings, rings_of
from polyrhythm.errors import RunError
from polyrhythm.process_group.transfer import Transfer

_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 0.002
"""A program that waits moves its bytes itself, and most wait at once: the group's thread leaves them this time."""
_IDLE_LOOKS = 25


@dataclass(slots=True, eq=False)
class _Early:
    """A message that came while a later one was wanted, or one of another size than the receive that `taker` is."""

    source: int
    tag: int
    room: Tensor
    moved: int = 0
    taker: Transfer | None = None

    @property
    def nbytes(self) -> int:
        return self.room.numel()

    @property
    def address(self) -> int:
        return self.room.data_ptr()


class RingTransfers:
    """Those of rank `rank` of the ones who share `memory`; `names` are their ranks in the whole job, `seconds` the time for a wait."""

    def __init__(
        self,
        memory: RingMemory,
        rank: int,
        names: Sequence[int],
        seconds: float,
        engine: Callable[[RingMemory, int], Rings] = rings_of,
    ) -> None:
        self._memory = memory  # keeps it mapped
        self._rings = engine(memory, rank)
        self._rank, self._names, self._seconds = rank, names, seconds
        self._sends: dict[int, deque[Transfer]] = {}
        self._receives: list[Transfer] = []
        self._incoming: dict[int, Transfer | _Early] = {}
        self._early: list[_Early] = []
        self._lost: set[int] = set()
        self._moving = threading.Lock()
        self._waiting = 0
        self._counting = threading.Lock()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False

    def send(self, tensor: Tensor, to: int, tag: int) -> Transfer:
        """Begin to send; what fits into the ring goes at once."""
        work = Transfer(self, f"send to rank {self._names[to]}", tensor, to, tag)
        with self._moving:
            self._sends.setdefault(to, deque()).append(work)
        return self._begun(work)

    def receive(self, tensor: Tensor, source: int | None, tag: int) -> Transfer:
        """Receive into `tensor`; what is there already comes at once."""
        whom = "anyone" if source is None else f"rank {self._names[source]}"
        work = Transfer(self, f"receive from {whom}", tensor, source, tag)
        with self._moving:
            early = next((each for each in self._early if each.taker is None and _takes(work, each.source, each.tag)), None)
            if early is None:
                self._receives.append(work)
            else:
                early.taker = work
                if early.moved == early.nbytes:
                    self._deliver(early)
        return self._begun(work)

    def wait(self, work: Transfer, seconds: float = 0.0) -> None:
        """Move what is due until `work` is done; 0 seconds are those of the group."""
        seconds = seconds if seconds > 0 else self._seconds
        deadline = time.monotonic() + seconds
        with self._counting:
            self._waiting += 1
        try:
            while True:
                seen = self._rings.calls()
                self.move()
                left = deadline - time.monotonic()
                if work.done:
                    return
                if left <= 0:
                    raise RunError(
                        f"Timed out: the {work.what} was not done within {seconds:g} s. Look for a rank that does not come to it."
                    )
                self._rings.wait(seen, min(left, _LOOK_SECONDS))
        finally:
            with self._counting:
                self._waiting -= 1

    def move(self) -> bool:
        """Move what can be moved without waiting: True if anything became done."""
        done: list[Transfer] = []
        with self._moving:
            for to, queue in list(self._sends.items()):
                self._send_on(to, queue, done)
            if self._receives or self._incoming:
                self._receive_on(done)
            if self._lost:
                self._drop_lost(done)
        for work in done:
            work.announce()
        if done and self._waiting:
            self._rings.call(self._rank)  # another thread may wait for what this one has moved
        return bool(done)

    def lose(self, rank: int) -> None:
        """The process of `rank` has ended: what it sent before can be received, and what is waited for then fails; from any thread."""
        self._lost.add(rank)
        self._rings.call(self._rank)

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._wanted.set()
        if self._thread is not None:
            self._rings.call(self._rank)
            self._thread.join()
            self._thread = None

    def _begun(self, work: Transfer) -> Transfer:
        if not work.done:
            self.move()
        if not work.done and not self._wanted.is_set():
            self._wanted.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._move_on, name="polyrhythm-transfers", daemon=True)
                self._thread.start()
        return work

    def _send_on(self, to: int, queue: deque[Transfer], done: list[Transfer]) -> None:
        while queue:
            work = queue[0]
            if work.moved < 0:
                work.moved = self._rings.begin(to, work.tag, work.address, work.nbytes)
            else:
                work.moved += self._rings.put(to, work.address + work.moved, work.nbytes - work.moved)
            if work.moved < work.nbytes:
                return
            queue.popleft()
            work.done = True
            done.append(work)
        del self._sends[to]

    def _receive_on(self, done: list[Transfer]) -> None:
        peers = {work.peer for work in self._receives}
        wanted = {peer for peer in peers if peer is not None}
        for source in range(self._memory.ranks) if None in peers else sorted(wanted.union(self._incoming)):
            while (into := self._incoming.get(source) or self._next(source)) is not None:
                into.moved += self._rings.get(source, into.address + into.moved, into.nbytes - into.moved)
                if into.moved < into.nbytes:
                    break
                del self._incoming[source]
                taker = self._deliver(into, source)
                if taker is not None:
                    done.append(taker)

    def _next(self, source: int) -> Transfer | _Early | None:
        """What the next message of `source` goes into. It is left where it is as long as nobody wants one of that rank."""
        if not any(work.peer in (None, source) for work in self._receives) or (head := self._rings.head(source)) is None:
            return None
        self._rings.skip(source)
        tag, nbytes = head
        work = next((each for each in self._receives if _takes(each, source, tag)), None)
        if work is not None:
            self._receives.remove(work)
        into: Transfer | _Early
        if work is not None and work.nbytes == nbytes:
            work.moved, into = 0, work
        else:
            into = _Early(source, tag, torch.empty(nbytes, dtype=torch.uint8), 0, work)
            self._early.append(into)
        self._incoming[source] = into
        return into

    def _deliver(self, into: Transfer | _Early, source: int = -1) -> Transfer | None:
        """All of a message has come: the receive that is done by it."""
        if isinstance(into, Transfer):
            into.receive_from(source)
            return into
        work = into.taker
        if work is None:
            return None
        self._early.remove(into)
        if work.nbytes != into.nbytes:
            work.fail(RunError(f"A {work.what} of {work.nbytes} bytes got {into.nbytes}: give it a tensor of the size that is sent."))
        else:
            work.flat.view(-1).view(torch.uint8).copy_(into.room)
            work.receive_from(into.source)
        return work

    def _drop_lost(self, done: list[Transfer]) -> None:
        """Fail what only a lost rank could complete."""
        others = set(range(self._memory.ranks)) - {self._rank}
        failing = [work for work in self._receives if (others if work.peer is None else {work.peer}) <= self._lost]
        failing += [into for source, into in self._incoming.items() if source in self._lost and isinstance(into, Transfer)]
        failing += [work for to, queue in self._sends.items() if to in self._lost for work in queue]
        self._receives = [work for work in self._receives if work not in failing]
        for rank in self._lost:
            self._sends.pop(rank, None)
            self._incoming.pop(rank, None)
        for work in failing:
            ranks = ", ".join(str(self._names[rank]) for rank in sorted(self._lost))
            work.fail(RunError(f"Rank {ranks} was lost: its process ended before a {work.what} was done. Start all ranks again."))
        done += failing

    def _move_on(self) -> None:
        """Move what is due while nobody waits, in the group's thread; it sleeps where nothing is due for a while."""
        looks = 0
        while not self._closed:
            self._wanted.wait()
            time.sleep(_GRACE_SECONDS)
            while not self._closed and not self._waiting and (self._sends or self._receives or self._incoming):
                looks = 0
                seen = self._rings.calls()
                if not self.move():
                    self._rings.wait(seen, _LOOK_SECONDS)
            looks += 1
            if looks > _IDLE_LOOKS and not self._closed:
                self._wanted.clear()
                if self._sends or self._receives or self._incoming:
                    self._wanted.set()


def _takes(work: Transfer, source: int, tag: int) -> bool:
    return work.tag == tag and work.peer in (None, source)
