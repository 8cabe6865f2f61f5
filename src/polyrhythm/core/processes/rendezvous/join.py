"""Joining a run from a process that torchrun, SLURM or a person started: the way over several hosts.

    with enter(job, record) as joined:
        result = job.program(joined.context)

Each such process is one worker. Server shard k runs as a child of the worker that the job names for it, else of rank k modulo the number
of workers.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType

from polyrhythm.core.kernel.agreement import Facts
from polyrhythm.core.kernel.events import AnyEvent, Recorder, Started
from polyrhythm.core.kernel.job import Ending, Job
from polyrhythm.core.kernel.message import Message
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.kernel.stopping import ask_first, forget
from polyrhythm.core.processes.collectives.reducer import GroupReducer
from polyrhythm.core.processes.rendezvous.entrance import HOST, Entrance, FixedEntrance
from polyrhythm.core.processes.rendezvous.local_servers import LocalServers
from polyrhythm.core.processes.rendezvous.negotiation import everyone, servers_of
from polyrhythm.core.processes.rendezvous.peer_monitor import PeerMonitor
from polyrhythm.core.processes.rendezvous.rank_environment import RankEnvironment, find_rank_environment
from polyrhythm.core.processes.rendezvous.rendezvous import Rendezvous
from polyrhythm.core.processes.rendezvous.script_end import Script, end_badly
from polyrhythm.core.processes.rendezvous.shutdown import Shutdown
from polyrhythm.core.processes.runtime.context import NodeContext
from polyrhythm.core.processes.runtime.node import Node
from polyrhythm.core.processes.runtime.role import Role
from polyrhythm.core.processes.runtime.stall_detection import Patience
from polyrhythm.core.processes.spawn import job_spec
from polyrhythm.core.processes.spawn.job_spec import JobSpec
from polyrhythm.core.processes.system.allocator import keep_memory
from polyrhythm.core.processes.system.descriptors import allow_many
from polyrhythm.core.processes.system.signals import DeferredSignals
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.errors import CompositionError, RunError, Stopped, WorkerStopped


@dataclass(frozen=True, slots=True)
class Joining:
    """The settings of joining: the seconds to wait for the others, the wiring, and the patience with an actor that makes no progress.

    `facts` are what all must have been started with; `bind` the address of this host to listen at, if it is not to be found out.
    """

    startup: float = 300.0
    wiring: Wiring = field(default_factory=Wiring)
    patience: Patience = field(default_factory=Patience)
    facts: Facts = field(default_factory=dict)
    bind: str = ""


def _ignore(problem: BaseException) -> None:
    return None


class JoinedRun:
    """A run that this process, the user's own, takes part in as a worker; `leave` it, or use it in a `with` statement.

    All processes that came by `entrance` must be given the same job; what closes it after an error is up to the caller.
    """

    def __init__(self, job: Job, record: Recorder, entrance: Entrance, joining: Joining) -> None:
        self._entrance = entrance
        self._job = job
        self._joining = joining
        self._name = entrance.name
        self._recorder = record
        self._recording = threading.Lock()
        self._left = False
        self._cause: BaseException | None = None
        self._script = Script()
        keep_memory()
        allow_many()
        secret, device = entrance.agree({**joining.facts, "seed": str(job.seed)})
        self._listeners = entrance.listen()
        self._node = Node(Role(self._name, secret, job.seed, device), joining.wiring, self._listeners, self._record)
        self._monitor = PeerMonitor(self._node, self._name, entrance.members(job), joining.patience, self._record)
        self._servers = LocalServers(self._node.loop, self._record, self._node.fail)
        self._shutdown = Shutdown(self._node, self._monitor, self._servers, self._record)
        self._context = NodeContext(self._node)
        self._following = entrance.follow(self._node, self._monitor, self._context, job, self._record)
        atexit.register(self._at_exit)
        try:
            self._connect(self._job_spec(secret, entrance.address, os.environ.get(HOST, "")))
        except BaseException:
            self._close()
            raise

    def _job_spec(self, secret: bytes, ip: str, host: str) -> JobSpec:
        """The job spec of the servers that this process starts."""
        return JobSpec(
            *job_spec.surroundings(),
            secret,
            self._job.seed,
            self._joining.wiring,
            threads=1,
            thresholds=self._joining.patience.thresholds,
            ip=ip,
            host=host,
            expendable=[name for name in everyone(self._job) if not self._job.essential(name)],
        )

    @property
    def context(self) -> NodeContext:
        """The worker as its program sees it. Its calls raise WorkerFailed if an actor of the run was lost."""
        return self._context

    @property
    def departed(self) -> bool:
        """True if this worker has left with notice a run that continues."""
        return self._following.departed()

    @property
    def traffic(self) -> tuple[int, int]:
        """The bytes and messages that this worker and its servers have sent so far."""
        return self._shutdown.traffic

    @property
    def failure(self) -> BaseException | None:
        """The error that the next call of the context will raise, if something has failed meanwhile."""
        return self._node.failure

    def leave(self, result: Message | None = None) -> Ending:
        """End well, when all others do: what was sent has been taken in, and all servers have ended; with the totals of the whole run.

        Raises WorkerFailed if another worker fails before all have ended.
        """
        if self._left:
            raise RunError(f"{self._name} has left this run already.")
        try:
            ending = self._shutdown.leave(self._following.others(), result, self._following.lost)
            ending.first = self._following.first()
        except BaseException as problem:
            self.fail(problem)
            raise
        self._close()
        return ending

    def abandon(self, why: BaseException | None = None) -> None:
        """End as one that has failed, and send the others why, where that is known. Its servers are killed."""
        if isinstance(why, KeyboardInterrupt) and not self._left and self._following.survivable:
            self._shutdown.send_stopping()  # the others continue
        elif why is not None and not self._left:
            self._shutdown.send_failure(self._following.failure(why))
        self._close()

    def __enter__(self) -> JoinedRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if value is not None:
            self.abandon(value)
        elif not self._left:
            self.leave()

    def _connect(self, spec: JobSpec) -> None:
        """Start the servers that belong here, learn where everyone is, and connect with all of them."""
        node, mine = self._node, servers_of(self._job, rank_of(self._name))
        work = (self._job.program, self._job.service)
        if mine:
            self._servers.start(mine, lambda: job_spec.pack(spec, work))
        node.start()
        self._shutdown.wait(lambda: self._servers.up, self._joining.startup)
        table = self._entrance.exchange({self._name: self._listeners.address, **self._servers.addresses}, everyone(self._job))
        origin = time.monotonic() - self._job.began
        others = [name for name in table if name != self._name]

        def connect() -> None:
            node.begin_run(table, origin)
            self._servers.begin(table, origin)
            node.peers.connect(others)

        node.loop.call(connect)
        self._shutdown.wait(lambda: self._entrance.connected(node, others), self._joining.startup)
        node.loop.call(lambda: self._monitor.begin(table))
        self._entrance.complete(node, self._job, table, self._use)
        self._record(Started(node.port.now(), self._name))
        ask_first(self._following.stop.ask)

    def _use(self, found: dict[str, GroupReducer]) -> None:
        used = threading.Event()

        def use() -> None:
            self._node.reducers = found
            used.set()

        self._node.loop.call(use)
        self._shutdown.wait(used.is_set)

    def _record(self, event: AnyEvent) -> None:
        with self._recording:  # the servers' events come in the loop's thread, ours in the program's
            self._recorder(event)

    def _close(self) -> None:
        if self._left:
            return
        self._left = True
        forget(self._following.stop.ask)
        self._following.stop.close()
        atexit.unregister(self._at_exit)
        self._script.release()
        self._node.stop(self._servers.close)
        self._monitor.close()
        self._entrance.close()

    def end(
        self, settled: bool, conclude: Callable[[], Message | None], on_failure: Callable[[BaseException], None] = _ignore
    ) -> Ending | None:
        """Leave with what `conclude` gives, or, if the script has failed, notify the others and return None; for exit handlers.

        `settled` is whether this worker's part of the run is done. `on_failure` is called with why the run did not end well here, if it
        did not; where that is not the script's own doing, this process then ends with exit code 1.
        """
        if self._left or not self._script.here:
            return None
        fault: BaseException | None = None
        try:
            with DeferredSignals(lambda: None):  # a second one must not break off how the first one ends this
                fault = None if self.departed else self._script.fault(self._name, settled)
                if fault is not None:
                    self.fail(fault, on_failure)
            return self.leave(conclude()) if fault is None else None
        except BaseException as problem:
            if fault is not None:
                return None
            end_badly(self.fail(problem, on_failure))

    def fail(self, problem: BaseException, on_failure: Callable[[BaseException], None] = _ignore) -> BaseException:
        """Abandon the run that `problem` has ended here, and call `on_failure` with why; a signal that comes meanwhile changes nothing."""
        why = problem
        with suppress(KeyboardInterrupt), DeferredSignals(lambda: None):
            why = self._cause = self._cause or self.why(problem)  # before it leaves, which is one more failure for the node
            try:
                self.abandon(problem)
            finally:
                on_failure(why)
        return why

    def why(self, problem: BaseException) -> BaseException:
        """The reason why this worker's part in the run has ended, which `problem` has shown."""
        if isinstance(problem, Stopped):
            return self._following.stop.explained(problem, self._following.lost)
        failure = self._node.failure
        return problem if failure is None or (isinstance(problem, KeyboardInterrupt) and isinstance(failure, WorkerStopped)) else failure

    def _at_exit(self) -> None:
        self.end(settled=False, conclude=lambda: None)


def enter(job: Job, record: Recorder, environment: RankEnvironment | None = None, joining: Joining | None = None) -> JoinedRun:
    """Join a run as the worker of `environment`, by default where torchrun or SLURM put this process; returns when all have come.

    Every process must be given the same job. Raises RunError if the others do not come, WorkerFailed if a server cannot start.
    """
    environment = find_rank_environment() if environment is None else environment
    if job.workers != environment.workers:
        raise CompositionError(f"The job has {job.workers} workers, but {environment.workers} processes were started: start as many.")
    settings = joining or Joining()
    with attend(environment, settings) as rendezvous:
        return JoinedRun(job, record, FixedEntrance(rendezvous), settings)


@contextmanager
def attend(environment: RankEnvironment, joining: Joining) -> Iterator[Rendezvous]:
    """A rendezvous that a `JoinedRun` closes; after an error it is closed here, and those who still wait for something get that error."""
    rendezvous = Rendezvous(environment, joining.startup, joining.bind)
    try:
        yield rendezvous
    except BaseException as problem:
        rendezvous.close(problem)
        raise
