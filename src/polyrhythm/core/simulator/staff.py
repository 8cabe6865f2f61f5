"""The actors of a run in virtual time: servers and workers that it begins with, and workers that join it."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.core.kernel.group import workers
from polyrhythm.core.kernel.job import Job
from polyrhythm.core.kernel.location import Location
from polyrhythm.core.kernel.names import is_worker, rank_of, server, worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.kernel.view import View
from polyrhythm.core.simulator.actors import VirtualActor, VirtualTask
from polyrhythm.core.simulator.carriers import Carriers, Greenlets
from polyrhythm.core.simulator.fault_injection import FaultInjection
from polyrhythm.core.simulator.program import Program
from polyrhythm.core.simulator.requested_stop import VirtualStop
from polyrhythm.core.simulator.scheduler import Scheduler
from polyrhythm.core.simulator.shared_state import SharedState
from polyrhythm.core.simulator.virtual_crew import VirtualCrew
from polyrhythm.hardware.fleet import Fleet


class Staff:
    """Makes the actors of `job` on `machines`, and what their programs share; `seed` is that of the simulator.

    A worker that joins begins `startup` seconds after it was hired. `follow` is called with each worker that has got its program.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        job: Job,
        machines: Fleet,
        seed: int,
        separate_randomness: bool,
        startup: float,
        follow: Callable[[VirtualActor], None],
    ) -> None:
        self.scheduler = scheduler
        self.job = job
        self.machines = machines
        self.seed = seed
        self.startup = startup
        self.follow = follow
        self._carriers: Carriers = job.carriers or Greenlets()
        self.shared = SharedState(
            scheduler.record,
            scheduler.mailroom,
            scheduler.gradients,
            self._carriers.state(separate_randomness),
            stopped=scheduler.stopped,
            stop=VirtualStop(job.grace),
        )

    def place(self, name: str) -> VirtualActor:
        """Make an actor, which has nothing to do yet."""
        queue = self.scheduler.queue
        port = Port(name, self.job.seed, lambda: queue.now, self.scheduler.record, self.job.timeline)
        actor = self.scheduler.actors[name] = VirtualActor(name, port, self.machines.timer(name, self.seed, lambda: queue.now))
        return actor

    def begin(self) -> None:
        """Give servers their tasks and workers their programs."""
        for shard in range(self.job.servers):
            actor = self.scheduler.actors[server(shard)]
            actor.tasks[VirtualTask(actor, self.job.service(actor.port, self.scheduler.record))] = None
        for rank in range(self.job.workers):
            self._employ(self.scheduler.actors[worker(rank)])

    def change(self, injection: FaultInjection, places: tuple[Location, ...]) -> None:
        """Let the workers change: newcomers get one of the `places`, and faults notify the authority."""
        crew = VirtualCrew(self.scheduler, self.job.crew, View.of(workers(self.job.workers)), self.hire, places)
        self.shared.crew = crew
        injection.joins = lambda fault: crew.join(fault.site)
        injection.leaves, injection.loses = crew.authority.leave, crew.authority.lose
        self.scheduler.fail, crew.lose = crew.failed, injection.lose
        injection.essential = lambda name: crew.interrupts(name, self.job.essential(name))

    def hire(self, name: str) -> None:
        """Make a worker that joins the run; its program begins now, or as soon as it has started."""
        assert is_worker(name), "only workers join"
        actor, queue = self.place(name), self.scheduler.queue
        self._employ(actor)
        if self.startup:
            self.scheduler.running += 1
            queue.at(queue.now + self.startup, (self._start, actor, None))
        else:
            self.scheduler.begin(actor)

    def _start(self, actor: VirtualActor, _: None) -> None:
        if not actor.ended:
            self.scheduler.running -= 1
            self.scheduler.begin(actor)

    def _employ(self, actor: VirtualActor) -> None:
        machines = self.machines.machines
        machine = machines[rank_of(actor.name) % len(machines)]
        actor.program = Program(actor, self.job.program, self.shared, machine, self._carriers)
        self.follow(actor)
