"""`Processes`: run a job for real, one process for each worker and server, on this host."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch

from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Ending, Job, Work
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.names import is_worker, server, worker
from polyrhythm.core.processes.runtime.actor_faults import pack
from polyrhythm.core.processes.runtime.stall_detection import Patience
from polyrhythm.core.processes.spawn import fork_client, job_spec
from polyrhythm.core.processes.spawn.child_watch import replace_stopped, wait
from polyrhythm.core.processes.spawn.job_spec import JobSpec, SharingGroup
from polyrhythm.core.processes.spawn.launched_run import LaunchedRun
from polyrhythm.core.processes.spawn.process_faults import refuse_virtual
from polyrhythm.core.processes.spawn.step_counts import StepCounts
from polyrhythm.core.processes.store.store_server import StoreServer
from polyrhythm.core.processes.system import capacity
from polyrhythm.core.processes.system.linux import require_linux
from polyrhythm.core.processes.transport.frame_link import Wiring
from polyrhythm.core.settings import checked
from polyrhythm.core.shared_memory import SharedSegment, can_share
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import Fault, FaultSource, Newcomers, schedule
from polyrhythm.hardware.faults.fault import LineFault
from polyrhythm.hardware.faults.schedule import refuse_changes


@dataclass(frozen=True, slots=True)
@checked
class Processes:
    """Real processes on this host (Linux), connected by local sockets and shared memory.

    `threads` is the number of torch threads in each; `cuda` whether each worker must have a CUDA device (True), must not
    (False), or has one if there is one for each (None); `patience` the seconds without traffic, with all waiting, after which the
    run counts as deadlocked; `startup` the seconds within which all must start; `notice` the seconds of waiting for one that makes no
    progress, or computes for long, after which this is printed on stderr; `timeout` those after which the run fails with its name (None:
    never); `preload` names modules to import once instead of in every process; `seed` is the default seed of runs, and that of
    `faults`: the values of `hardware`, at the times and steps that the same seed gives in virtual time.
    """

    threads: int = 1
    cuda: bool | None = None
    patience: float = 20.0
    startup: float = 120.0
    notice: float = 30.0
    timeout: float | None = None
    preload: tuple[str, ...] = ()
    seed: int = 0
    wiring: Wiring = field(default_factory=Wiring)
    faults: tuple[FaultSource, ...] = ()

    def __post_init__(self) -> None:
        require_linux("Processes(), which starts real processes,")
        if self.threads < 1:
            raise CompositionError(f"Processes(threads={self.threads}) has no thread for computing: give at least 1.")
        if self.cuda and not torch.cuda.is_available():
            raise CompositionError(
                f"CUDA devices were requested, but torch {torch.__version__} finds none here: use the CPU, with Processes(cuda=False) "
                "or --device cpu."
            )
        if self.startup <= 0:
            raise CompositionError(f"Processes(startup={self.startup:g}) is not a positive time: give more than 0 seconds.")
        assert self._patience  # refuses the others

    @property
    def kind(self) -> str:
        """The name of this runtime in `--on` and in the JSON."""
        return "processes"

    @property
    def _patience(self) -> Patience:
        return Patience(deadlock=self.patience, notice=self.notice, timeout=self.timeout)

    @property
    def network_name(self) -> None:
        """Always None: the network is real."""

    def locations(self, workers: int) -> tuple[Location, ...]:
        """All are on this host."""
        return (Location("local", socket.gethostname()),) * workers

    def execute(self, work: Work, record: Recorder) -> Ending:
        """Run `work` to its end.

        Raises CompositionError for more processes than this host can hold; WorkerFailed naming an actor that raised or died, with its
        own traceback; the actor's own error if that is a PolyrhythmError; DeadlockError if no actor can continue. No process is left
        afterwards.
        """
        job = work.job(self.locations(work.workers))
        capacity.check(job.workers + job.servers)
        devices, secret = self._devices(job), secrets.token_bytes(32)
        faults = self._schedule(job, devices)
        by_messages = any(isinstance(fault, LineFault) for fault in faults)  # sums in shared memory would go past a cut
        with ExitStack() as stack:
            by_messages |= not job.crew.fixed and set(devices.values()) != {"cpu"}  # a sum through NCCL cannot be interrupted
            groups = [_share(name, members, stack, by_messages) for name, members in job.summing.items()]
            gathering = [_share(name, members, stack, by_messages) for name, members in job.gathering.items()]
            counts = _count(job.crew, stack)
            spec = JobSpec(
                *job_spec.surroundings(),
                secret,
                job.seed,
                self.wiring,
                self.threads,
                self._patience.thresholds,
                groups,
                gathering,
                _keep_store(devices, secret, stack),
                faults=pack(faults),
                fault_seed=self.seed,
                changes=not job.crew.fixed,
                counts="" if counts is None else counts.path,
                places=job.crew.most,
            )
            return self._launch(job, record, spec, devices, faults, counts)

    def _schedule(self, job: Job, devices: dict[str, str]) -> list[Fault]:
        """The faults of the run. Raises CompositionError for those that it cannot have."""
        names = [server(shard) for shard in range(job.servers)] + [worker(rank) for rank in range(job.workers)]
        faults = schedule(self.faults, self.seed, names, job.began, Newcomers(job.crew.most, job.crew.replaces))
        refuse_virtual(faults, devices)
        if job.crew.fixed:
            refuse_changes(faults)
        return faults

    def _launch(
        self, job: Job, record: Recorder, spec: JobSpec, devices: dict[str, str], faults: list[Fault], counts: StepCounts | None
    ) -> Ending:
        with fork_client.borrow() as client:  # first, so that it imports while the job is packed
            packed = job_spec.pack(spec, (job.program, job.service))
            crew, [place], shares = job.crew, self.locations(1), any(group.memory for group in (*spec.groups, *spec.gathering))
            policy = replace_stopped if crew.replaces else wait
            run = LaunchedRun(job, record, self.startup, self._patience, policy, faults, place, shares, counts)
            return run.execute(client, devices, packed, self.preload)

    def _devices(self, job: Job) -> dict[str, str]:
        """The device of each actor: one CUDA device for each worker if there are enough and they may be used, else the CPU."""
        there = torch.cuda.device_count() if self.cuda is not False and torch.cuda.is_available() else 0
        most = max(job.workers, job.crew.most)
        if self.cuda and there < most:
            raise CompositionError(
                f"A CUDA device was requested for each of {most} workers, but torch finds {there} here: start no more workers than "
                "that, or use the CPU."
            )
        workers = {worker(rank): f"cuda:{rank}" if there >= most else "cpu" for rank in range(job.workers)}
        return workers | {server(shard): "cpu" for shard in range(job.servers)}


def _share(name: str, members: tuple[str, ...], stack: ExitStack, by_messages: bool) -> SharingGroup:
    """Memory for a group, where processes of this host can share any; `stack` closes it when all members have opened it."""
    if by_messages or not can_share():
        return SharingGroup(name, members, "")
    segment = SharedSegment.create(len(members))
    stack.callback(segment.close)
    return SharingGroup(name, members, segment.path)


def _count(crew: Crew, stack: ExitStack) -> StepCounts | None:
    """The memory where workers that come and go count their steps, where processes of this host can share any."""
    if crew.fixed or not can_share():
        return None
    counts = StepCounts.create(crew.most)
    stack.callback(counts.close)
    return counts


def _keep_store(devices: dict[str, str], secret: bytes, stack: ExitStack) -> int:
    """The port of this host's loopback at which a store for NCCL's communicators is kept while `stack` is; 0 where nobody needs it."""
    workers = [device for name, device in devices.items() if is_worker(name)]
    if "cpu" in workers:
        return 0
    return stack.enter_context(StoreServer("127.0.0.1", len(workers), secret, rounds=1)).address[1]
