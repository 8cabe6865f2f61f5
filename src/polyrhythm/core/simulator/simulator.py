"""`Simulator`: runs a job in virtual time, in one process and one thread; the same seed gives the same bytes."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from polyrhythm.core.kernel.events import Recorder
from polyrhythm.core.kernel.job import Ending, Job, Work
from polyrhythm.core.kernel.location import Location, unplaced
from polyrhythm.core.kernel.names import server, worker
from polyrhythm.core.kernel.stopping import asked_first
from polyrhythm.core.settings import checked
from polyrhythm.core.simulator.broadcasts import Broadcasts
from polyrhythm.core.simulator.collecting import collecting_seldom
from polyrhythm.core.simulator.collectives import ClosedForm, Collectives, Messages, Reductions
from polyrhythm.core.simulator.event_parts import BEST
from polyrhythm.core.simulator.failure import fail
from polyrhythm.core.simulator.fault_injection import FaultInjection
from polyrhythm.core.simulator.flows import Flows
from polyrhythm.core.simulator.gradients.modes import ComputedAlone, GradientMode, GradientService, OneByOne
from polyrhythm.core.simulator.network_changes import plan_changes
from polyrhythm.core.simulator.scheduler import Scheduler
from polyrhythm.core.simulator.shared_state import SharedState
from polyrhythm.core.simulator.staff import Staff
from polyrhythm.errors import CompositionError, Stopped, WorkerFailed
from polyrhythm.hardware import faults as hazards
from polyrhythm.hardware import network as networks
from polyrhythm.hardware.devices import Machine
from polyrhythm.hardware.faults.schedule import refuse_changes
from polyrhythm.hardware.fleet import Fleet, fleet
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.timetable import timetable

CARRIERS = ("threads", "processes")
"""What ranks of a program of torch.distributed may run in."""

_turn = threading.RLock()
"""Held by the run of this process that uses the thread count and the global random generators."""


@dataclass(frozen=True, slots=True)
class Instant:
    """No network: every message arrives at once. For tests, and to see what computing alone would take."""


@dataclass(frozen=True, slots=True)
@checked
class Simulator:
    """Virtual time: real programs with real gradients, on a simulated network and devices.

    Args:
        network: a preset's name ("lan", "slow", "wan-11", …), a file or a directory of `polyrhythm calibrate`, a `Network`, or `Instant()`.
        devices: a preset's name ("cpu-core", "a100", …), such a file or directory, a device or profile for all workers, or a `Fleet`.
        faults: crashes, stalls, cuts and others, as values of `hardware`.
        detection: seconds after which a crash is noticed; until then the others wait for messages that do not come, and nobody replaces it.
        startup: seconds that a worker takes to begin which joins the run, or replaces another.
        seed: of jitter of machines and links, stragglers, faults and pauses of connections; the run's own seed is that of the actors'
            random streams.
        collectives: whether reductions, and what workers send to all others, travel as messages or are charged in closed form.
        shuffle_ties: a seed that orders simultaneous events; None keeps the order in which they were scheduled.
        separate_randomness: whether each program has its own states of the global random generators, as in a separate process. It costs
            some 20 µs at each switch of programs; a run that only times messages does not need it.
        carrier: what ranks of a program of torch.distributed run in: "threads" of one process, or "processes", which share nothing and
            take longer to start and to switch. Virtual times and values are the same.
        gradients: how the workers' gradients are computed: `OneByOne()`, bit for bit those of real processes, or `SideBySide()`, those of
            several workers at once, on all cores, and equal within rounding.
        record_sends: whether every message is recorded as an event; there are millions.

    Raises `PolyrhythmError`s for a preset or file that does not exist or cannot be used.
    """

    network: str | Path | Network | Instant = "lan"
    devices: str | Path | Machine | Fleet = "cpu-core"
    faults: tuple[hazards.FaultSource, ...] = ()
    seed: int = 0
    collectives: Collectives = Messages()  # noqa: RUF009 (a frozen value)
    shuffle_ties: int | None = None
    separate_randomness: bool = True
    record_sends: bool = False
    detection: float = 0.0
    startup: float = 0.0
    carrier: str = "threads"
    gradients: GradientMode = OneByOne()  # noqa: RUF009 (a frozen value)

    def __post_init__(self) -> None:
        for name, seconds in {"detection": self.detection, "startup": self.startup}.items():
            if not 0 <= seconds < math.inf:
                raise CompositionError(f"Simulator({name}={seconds}) is no time: give 0 or more seconds.")
        if self.carrier not in CARRIERS:
            raise CompositionError(f"Simulator(carrier={self.carrier!r}) is no way to run ranks: give {' or '.join(map(repr, CARRIERS))}.")
        network = self._network()
        if network is None and any(isinstance(fault, hazards.Disconnect | hazards.RandomCuts | hazards.Partition) for fault in self.faults):
            raise CompositionError("The network Instant() has no links that could be cut. Give another network, or no cuts.")
        if network is not None and isinstance(self.collectives, ClosedForm):
            unseen = {"changes in time": network.changes, "has a shared medium": network.shares_media, "has jitter": network.varies}
            for what, there in unseen.items():
                if there:
                    raise CompositionError(f"The network {network.name!r} {what}, and no closed form sees that: leave out collectives=.")
        fleet(self.devices)

    @property
    def kind(self) -> str:
        return "simulator"

    @property
    def network_name(self) -> str | None:
        """The name of the network in tables and in the JSON; None for `Instant()`."""
        network = self._network()
        return network.name if network is not None else None

    def locations(self, workers: int) -> tuple[Location, ...]:
        """The location of each worker: a separate host, at the site that the network deals it to."""
        network = self._network()
        if network is None:
            return unplaced(workers)
        return tuple(Location(network.sites[network.site_of(rank, workers)].name, f"host/{rank}") for rank in range(workers))

    def execute(self, work: Work, record: Recorder) -> Ending:
        """Run `work` to its end; events go to `record` as they happen. Runs of several threads take turns.

        Raises `DeadlockError` when no actor can continue, `WorkerFailed` when a program or actor raised or an essential one crashed;
        `PolyrhythmError`s of programs and actors pass through.
        """
        if work.workers < 1:
            raise CompositionError(f"A run needs workers, and {work.workers} were given. Give at least one.")
        job = work.job(self.locations(work.workers))
        if job.carriers is None and self.carrier != CARRIERS[0]:
            raise CompositionError(
                f"Simulator(carrier={self.carrier!r}) is for programs of torch.distributed, and this is none: leave carrier= out."
            )
        with _alone():
            scheduler, shared = self._assemble(job, record)
            before = shared.drawing
            try:
                scheduler.gradients.begin(scheduler)
                for actor in list(scheduler.actors.values()):
                    scheduler.begin(actor)
                with asked_first(shared.stop.ask):
                    scheduler.run()
                _close(scheduler)
            except Stopped as problem:
                problem.kept = problem.kept if shared.stop.problem is None else bool(problem.kept)
                raise
            except WorkerFailed as problem:
                if problem.__cause__ is None or not scheduler.faults.cause:
                    raise
                # an error after a message was lost is a consequence of the loss, which is therefore named first
                raise WorkerFailed(problem.actor, f"{scheduler.faults.cause}; then {problem.reason}", problem.trace) from problem.__cause__
            finally:
                shared.stop.close()
                _abandon(scheduler)
                scheduler.ending.notes.update(scheduler.gradients.end())
                if before is not None and shared.drawing is not None:
                    shared.drawing.save()
                    before.load(shared.drawing)
        if shared.crew is not None:
            scheduler.ending.first = shared.crew.authority.view.first
        scheduler.ending.bytes_sent, scheduler.ending.messages_sent = scheduler.mailroom.bytes_sent, scheduler.mailroom.messages_sent
        scheduler.ending.bytes_between_sites = scheduler.mailroom.bytes_between_sites
        return scheduler.ending

    def _service(self, job: Job) -> GradientService:
        """What computes gradients; programs with threads of their own compute one by one."""
        return self.gradients.service() if job.carriers is None else ComputedAlone()

    def _network(self) -> Network | None:
        if isinstance(self.network, Instant):
            return None
        return self.network if isinstance(self.network, Network) else networks.load(self.network)

    def _assemble(self, job: Job, record: Recorder) -> tuple[Scheduler, SharedState]:
        """The scheduler with all actors and scheduled faults."""
        network, machines, queue = self._network(), fleet(self.devices), BEST.queue(self.shuffle_ties)
        queue.now = job.began
        if network is not None and any(rank is not None for rank in job.colocated):
            network = dataclasses.replace(network, beside=job.colocated)
        hosts = max(job.workers, job.crew.most)
        names = [server(shard) for shard in range(job.servers)] + [worker(rank) for rank in range(job.workers)]
        faults = hazards.schedule(self.faults, self.seed, names, job.began, hazards.Newcomers(job.crew.most, job.crew.replaces))
        if job.crew.fixed:
            refuse_changes(faults)
        link = (0.0, math.inf) if network is None else network.slowest()
        scheduler = Scheduler(
            queue,
            {},
            None if network is None else Flows(network, hosts, self.seed),
            Reductions(link) if isinstance(self.collectives, ClosedForm) else None,
            record,
            record if self.record_sends else None,
            record if job.timeline else None,
            BEST,
            gradients=self._service(job),
        )
        if network is not None and isinstance(self.collectives, ClosedForm):
            scheduler.mailroom.broadcasts = Broadcasts(network, hosts)
        injection = FaultInjection(scheduler, network, hosts, job.essential, self.seed, self.detection)
        staff = Staff(scheduler, job, machines, self.seed, self.separate_randomness, self.startup, injection.follow)
        for name in names:
            staff.place(name)
        if not job.crew.fixed:
            staff.change(injection, self.locations(hosts))
        staff.begin()
        injection.plan(faults)
        staff.shared.written = injection.written
        if network is not None:
            plan_changes(scheduler, timetable(network, hosts))
        return scheduler, staff.shared


@contextmanager
def _alone() -> Iterator[None]:
    """One run at a time, on one torch thread, so that no result depends on the number of cores, and in the usual grad mode."""
    with _turn:
        threads, grad = torch.get_num_threads(), torch.is_grad_enabled()
        torch.set_num_threads(1)
        torch.set_grad_enabled(True)
        try:
            with collecting_seldom():
                yield
        finally:
            torch.set_grad_enabled(grad)
            torch.set_num_threads(threads)


def _close(scheduler: Scheduler) -> None:
    """Close servers that still wait, after a run without an error."""
    for actor in scheduler.actors.values():
        try:
            actor.end()
        except Exception as problem:
            fail(actor.name, problem)


def _abandon(scheduler: Scheduler) -> None:
    """Close whatever is left of a run that failed; what goes wrong in closing would only hide why it failed."""
    for actor in scheduler.actors.values():
        with suppress(Exception):
            actor.end()
        if actor.program is not None:
            actor.program.kill()
