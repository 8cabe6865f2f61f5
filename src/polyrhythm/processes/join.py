"""Joining a run from a process that torchrun, SLURM or a person started: the way over several hosts.

    with enter(job, record) as stage:
        result = job.program(stage)

Each such process is one worker. Server shard k runs as a child of rank k modulo the number of workers.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

import torch

from polyrhythm.errors import CompositionError, RunError, WorkerFailed
from polyrhythm.kernel.effects import Effect
from polyrhythm.kernel.events import AnyEvent, Ended, Faulted, Recorder, Started
from polyrhythm.kernel.job import Ending, Job
from polyrhythm.kernel.message import Message
from polyrhythm.kernel.port import Port, server, worker
from polyrhythm.processes import parcel
from polyrhythm.processes.addresses import Address, listen_everywhere
from polyrhythm.processes.allocator import keep_memory
from polyrhythm.processes.collective import Collective
from polyrhythm.processes.descriptors import allow_many
from polyrhythm.processes.links import Wiring
from polyrhythm.processes.meeting import Meeting
from polyrhythm.processes.nccl import Nccl
from polyrhythm.processes.node import Node, Role
from polyrhythm.processes.parcel import Orders
from polyrhythm.processes.place import Place, find_place, own_ip
from polyrhythm.processes.shared import SharedMemory
from polyrhythm.processes.ticket import Ticket
from polyrhythm.processes.wards import Wards
from polyrhythm.sharing import Group, Segment, can_share

T = TypeVar("T")

_LOOK_SECONDS = 0.002
_TOGETHER_SECONDS = 0.2
"""Actors of one host fall together; so long is waited for all to be known before one is named."""


@dataclass(frozen=True, slots=True)
class Joining:
    """How to join: how many seconds to wait for the others, and the wiring."""

    startup: float = 300.0
    wiring: Wiring = field(default_factory=Wiring)


class JoinedStage:
    """A `kernel.job.Stage` in a process of the user's own; `leave` it, or use it in a `with` statement."""

    def __init__(self, job: Job, record: Recorder, place: Place, joining: Joining) -> None:
        self._place = place
        self._job = job
        self._joining = joining
        self._name = worker(place.rank)
        self._recorder = record
        self._recording = threading.Lock()
        self._broken: dict[str, Exception | None] = {}
        self._lost: list[str] = []
        self._left = False
        keep_memory()
        allow_many()
        meeting = Meeting(place, joining.startup)
        # where one has none, all do without: what goes between devices must find everybody there
        mine = _device(place)
        device = mine if meeting.all_can("use a device", mine != "cpu") else "cpu"
        secret, ip, host = meeting.secret(), own_ip(place), os.environ.get("POLYRHYTHM_HOST_ID", "")
        self._listeners = listen_everywhere(ip, host)
        self._node = Node(Role(self._name, secret, job.seed, device), joining.wiring, self._listeners, self._record)
        self._node.on_break = self._break
        self._wards = Wards(self._node.loop, self._record, self._node.fail)
        atexit.register(self._at_exit)
        orders = Orders(
            *parcel.surroundings(),
            secret,
            job.seed,
            joining.wiring,
            threads=1,
            patience=0.0,
            ip=ip,
            host=host,
            expendable=[name for name in _everyone(job) if not job.essential(name)],
        )
        try:
            self._come_in(meeting, orders)
        except BaseException:
            self._close()
            raise

    @property
    def port(self) -> Port:
        """The worker's door to the others."""
        return self._node.port

    @property
    def record(self) -> Recorder:
        """Where this worker's events go, and those of the servers that run beside it."""
        return self._record

    @property
    def bytes_sent(self) -> int:
        """Bytes that this worker has sent so far."""
        return self._node.bytes_sent

    @property
    def device(self) -> str:
        """The torch device of this worker."""
        return self._node.device

    @property
    def failure(self) -> BaseException | None:
        """What the next `perform` will raise, if something has failed meanwhile."""
        return self._node.failure

    def charge(self, samples: int) -> None:
        """Nothing: real time has passed."""

    def charge_merge(self, others: int) -> None:
        """Nothing: real time has passed."""

    def free(self, compute: Callable[[], T]) -> T:
        """Call `compute`."""
        return compute()

    def perform(self, coroutine: Coroutine[Effect[Any], Any, T]) -> T:
        """Block until `coroutine` has ended. Raises WorkerFailed, now or at the next call, if an actor of the run was lost."""
        return self._node.perform(coroutine)

    def begin(self, coroutine: Coroutine[Effect[Any], Any, None], done: float) -> None:
        """Run `coroutine` beside the program; the next `perform` comes after it, and raises its error."""
        self._node.begin(coroutine, done)

    def leave(self, result: Message | None = None) -> Ending:
        """End well: all that was sent has been taken in by the others, and the servers beside this worker have ended."""
        if self._left:
            raise RunError(f"{self._name} has left this run already.")
        seconds = self.port.now()
        taken = threading.Event()
        try:
            self._node.loop.call(lambda: self._node.finish(taken.set))
            self._await(taken.is_set)
            peers = self._node.peers
            totals = [(peers.bytes_sent, peers.messages_sent)]
            self._record(Ended(self.port.now(), self._name, *totals[0]))
            self._await(lambda: self._wards.over)
            self._node.loop.call(self._wards.release)
            self._await(lambda: self._wards.gone)
            totals.extend(self._wards.totals.values())
        finally:
            self._close()
        return Ending({self._name: result}, sum(t[0] for t in totals), sum(t[1] for t in totals), seconds, self._lost)

    def abandon(self) -> None:
        """End without a word: for the others, this worker has failed. Its servers are killed."""
        self._close()

    def __enter__(self) -> JoinedStage:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if value is not None:
            self.abandon()
        elif not self._left:
            self.leave()

    def _come_in(self, meeting: Meeting, orders: Orders) -> None:
        """Start the servers that belong here, learn where everyone is, and connect with all of them."""
        mine = [server(shard) for shard in range(self._job.servers) if shard % self._place.workers == self._place.rank]
        work = (self._job.program, self._job.service)
        if mine:
            self._wards.start(mine, parcel.pack(orders, work))
        self._node.start()
        self._await(lambda: self._wards.up)
        for name, address in {self._name: self._listeners.address, **self._wards.addresses}.items():
            meeting.publish(name, address)
        table = meeting.table(_everyone(self._job))
        origin = time.monotonic()
        others = [name for name in table if name != self._name]

        def connect() -> None:
            self._node.know(table, origin)
            self._wards.know(table, origin)
            self._node.peers.connect(others)

        self._node.loop.call(connect)
        self._await(lambda: self._node.peers.connected(others))
        if self.device == "cpu":
            self._share_memory(meeting, table)
        else:
            with socket.create_server((orders.ip, 0)) as free:
                proposal = f"{orders.ip}:{free.getsockname()[1]}"
            where, charge = meeting.agree("nccl", proposal), self._node.peers.charge
            self._add_by(Nccl(self._place.rank, self._place.workers, where, self.device, charge))
        self._record(Started(self.port.now(), self._name))

    def _share_memory(self, meeting: Meeting, table: dict[str, Address]) -> None:
        """Have sums go through shared memory, if all workers are on one host and every one can open it."""
        rank, workers = self._place.rank, self._place.workers
        if workers < 2 or len({table[worker(each)].host for each in range(workers)}) > 1:
            return
        with ExitStack() as stack:
            made = ""
            if rank == 0:
                segment = Segment.create(workers)
                stack.callback(segment.close)
                made = segment.path
            path = meeting.agree("memory", made)
            try:
                mine: Segment | None = Segment.open(path, workers)
            except RunError:
                mine = None
            if meeting.all_can("share memory", mine is not None and can_share()) and mine is not None:
                self._add_by(SharedMemory(Group(mine, rank), self._node.peers.charge))

    def _add_by(self, collective: Collective) -> None:
        def use() -> None:
            self._node.collective = collective

        self._node.loop.call(use)
        self._await(lambda: self._node.collective is not None)

    def _await(self, reached: Callable[[], bool]) -> None:
        """Block until `reached` holds in the loop's thread. Raises why the node failed, if it does before that."""
        ticket = Ticket()

        def look() -> None:
            if reached() or self._node.failure is not None:
                ticket.finish(None, None if reached() else self._node.failure)
            else:
                self._node.loop.after(_LOOK_SECONDS, look)

        self._node.loop.call(look)
        ticket.wait()

    def _record(self, event: AnyEvent) -> None:
        with self._recording:  # the servers' events come in the loop's thread, ours in the program's
            self._recorder(event)

    def _break(self, name: str, why: Exception | None) -> None:
        if not self._job.essential(name):
            self._lost.append(name)
            self._record(Faulted(self.port.now(), name, "its connection broke off"))
            self._node.lose(name)
            return
        if not self._broken:
            self._node.loop.after(_TOGETHER_SECONDS, self._name_broken)
        self._broken.setdefault(name, why)

    def _name_broken(self) -> None:
        """Fail, naming a worker rather than the servers that fell with it."""
        broken = sorted((name for name in self._broken if not self._node.knows_end(name)), key=lambda name: name.startswith("server/"))
        if broken:
            first, *rest = broken
            why, also = self._broken[first], f", and with it those of {', '.join(rest)}" if rest else ""
            self._node.fail(WorkerFailed(first, f"its connections broke off without a good-bye{f' ({why})' if why else ''}{also}"))

    def _close(self) -> None:
        if self._left:
            return
        self._left = True
        atexit.unregister(self._at_exit)
        self._node.stop(self._wards.close)

    def _at_exit(self) -> None:
        """The script ended without a word to us: well, unless by an exception."""
        if getattr(sys, "last_value", None) is None:
            self.leave()
        else:
            self.abandon()


def enter(job: Job, record: Recorder, place: Place | None = None, joining: Joining | None = None) -> JoinedStage:
    """Join a run as the worker of `place`, by default where torchrun or SLURM put this process; returns when all have come.

    Every process must be given the same job. Raises RunError if the others do not come, WorkerFailed if a server cannot start.
    """
    place = find_place() if place is None else place
    if job.workers != place.workers:
        raise CompositionError(f"The job is for {job.workers} workers, and {place.workers} processes were started: start as many.")
    return JoinedStage(job, record, place, joining or Joining())


def _everyone(job: Job) -> list[str]:
    return [*(worker(rank) for rank in range(job.workers)), *(server(shard) for shard in range(job.servers))]


def _device(place: Place) -> str:
    return f"cuda:{place.local_rank}" if torch.cuda.is_available() and place.local_rank < torch.cuda.device_count() else "cpu"
