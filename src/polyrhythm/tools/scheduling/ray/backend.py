"""The backend over Ray: the workers of a gang are actors of one placement group, on the nodes that were decided; those of a crew have one
each, since they come and go.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from polyrhythm.cluster import Action, Cluster, ClusterState, EvictJob, PartLost, PartRestored, PlaceJob, ResizeJob, WorkerSlot
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.ray import Ray
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.job_run import CarriedJob
from polyrhythm.tools.scheduling.news import StartWorker
from polyrhythm.tools.scheduling.ray.nodes import HOST, ActorEnd, ActorGang, RayCluster, RayNode
from polyrhythm.tools.scheduling.seen import JobsSeen, jobs_arrived
from polyrhythm.tools.scheduling.training_jobs import TrainingJob
from polyrhythm.tools.scheduling.worker_commands import free_port, start_of

_PATIENCE = 10.0
"""Seconds that workers which were asked to end have for it."""
_DEVICES = ("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")


@dataclass(slots=True)
class _PlacedGang:
    """A gang of this job, and when it is killed if it was asked to end."""

    job: str
    actors: ActorGang
    deadline: float | None = None


class RayBackend:
    """The jobs of a list on nodes of a Ray cluster, which are the hosts of a cluster. Ray gives them their room when it has it, chooses the
    devices on a node, and says which nodes are dead. Of `engine` the address, the restarts and `runtime_env` matter.
    """

    def __init__(self, cluster: Cluster, jobs: Sequence[TrainingJob], settings: HostSettings, engine: Ray) -> None:
        self._cluster = cluster
        self._settings = settings
        self._ray = RayCluster(engine)
        self._seen = JobsSeen(engine.restarts, self._stop)
        self._nodes: Mapping[str, RayNode] = {}
        self._gangs: list[_PlacedGang] = []
        self._asked: float | None = None
        self._now = 0.0
        self.runs = {each.job.name: CarriedJob(each) for each in jobs}

    @property
    def health(self) -> Mapping[str, str]:
        """The health of each host: dead where Ray says so."""
        return {host.name: "healthy" if host.name in self._nodes else "dead" for host in self._cluster.hosts}

    @property
    def agents(self) -> Mapping[str, int]:
        """None: Ray's daemons have the workers."""
        return {}

    @property
    def over(self) -> bool:
        """True when all jobs have ended or failed."""
        return all(run.over is not None for run in self.runs.values())

    def ready(self) -> bool:
        """True. Raises CompositionError where a host is no node."""
        self._nodes = self._ray.nodes()
        for host in self._cluster.hosts:
            if host.name not in self._nodes:
                raise CompositionError(
                    f"Ray has no node {host.name!r}; it has {', '.join(sorted(self._nodes)) or 'none'}. Name the hosts of SITE so, or "
                    f"start that node with ray start --labels {HOST}={host.name}."
                )
        return True

    def close(self) -> None:
        """Kill all that is left."""
        for gang in self._gangs:
            gang.actors.close()

    def observed(self, state: ClusterState, now: float) -> ClusterState:
        """The state after what Ray says of nodes, once in `interval` seconds, and of actors."""
        self._now = now
        state = jobs_arrived(state, self.runs, now)
        if self._asked is None or now >= self._asked + self._settings.interval:
            self._asked, self._nodes = now, self._ray.nodes()
            for host in self._cluster.hosts:
                is_lost = (host.name, None) in state.lost
                if host.name not in self._nodes and not is_lost:
                    state = state.after(PartLost(host.name), now)
                elif host.name in self._nodes and is_lost:
                    state = state.after(PartRestored(host.name), now)
        for gang in list(self._gangs):
            self._look(gang)
        for name, run in self.runs.items():
            waits = any(gang.job == name and gang.deadline is None and not gang.actors.actors for gang in self._gangs)
            run.held = "Ray has no room for it yet: others have the nodes" if waits else ""
        return self._seen.after(state, self.runs, now)

    def carry_out(self, action: Action, now: float) -> bool:
        """Ask Ray for room for workers, or have them leave. False while those of the last attempt are there, or a node is not."""
        run = self.runs[action.job]
        match action:
            case PlaceJob(placement):
                if run.leaving or any(host not in self._nodes for host in placement.hosts):
                    return False
                others = [host.name for host in self._cluster.hosts if host.name not in placement.hosts and host.name in self._nodes]
                addresses = tuple(dict.fromkeys(self._nodes[host].address for host in (*placement.hosts, *others)))
                run.begin(secrets.token_hex(16), free_port(addresses[0], remote=True), addresses, placement.system, now)
                self._start(run, placement.slots)
            case ResizeJob(placement, _):
                left = list(placement.slots)
                leaving = []
                for worker, slot in run.workers.items():
                    if slot in left:
                        left.remove(slot)
                    else:
                        leaving.append(worker)
                self._stop(run, leaving)
                if any(slot.host not in self._nodes for slot in left):
                    return False
                self._start(run, left)
            case EvictJob():
                self._stop(run, list(run.workers))
        return True

    def _start(self, run: CarriedJob, slots: Sequence[WorkerSlot]) -> None:
        orders = [self._order(run, rank, slot) for rank, slot in enumerate(slots)]
        places = [self._nodes[slot.host].identifier for slot in slots]
        each = 1 if run.training.job.is_malleable else len(slots)
        for first in range(0, len(slots), each):
            part = slice(first, first + each)
            actors = self._ray.gang(orders[part], places[part], run.training.job.demand)
            self._gangs.append(_PlacedGang(run.name, actors))

    def _order(self, run: CarriedJob, rank: int, slot: WorkerSlot) -> StartWorker:
        where = (self._settings.python, self._nodes[slot.host].address, self._settings.out)
        order = start_of(run, run.next_worker(slot), rank, slot, where)
        # which devices an actor sees is Ray's to say: others of the cluster have some too
        variables = {name: value for name, value in order.environment.items() if name not in _DEVICES}
        return StartWorker(order.name, order.command, variables, order.log)

    def _stop(self, run: CarriedJob, workers: Collection[str]) -> None:
        """Have the gangs of these leave; how they end is of no interest any more."""
        for gang in self._gangs:
            if gang.job == run.name and gang.deadline is None and not set(gang.actors.left).isdisjoint(workers):
                gang.deadline = self._now + _PATIENCE
                gang.actors.stop(by_force=False)
                for worker in gang.actors.left:
                    if worker in run.workers:
                        run.leaving[worker] = run.workers.pop(worker)

    def _look(self, gang: _PlacedGang) -> None:
        """Take in what has become of a gang, and remove it when all of it has ended."""
        run, actors = self.runs[gang.job], gang.actors
        if gang.deadline is None and not actors.is_granted:
            return
        for worker, end in actors.ends().items():
            run.leaving.pop(worker, None)
            if worker in run.workers:
                self._ended(run, worker, end)
        if gang.deadline is not None and self._now > gang.deadline:
            actors.stop(by_force=True)
        if not actors.actors or not actors.left:
            for worker in actors.left:
                run.leaving.pop(worker, None)
            actors.close()
            self._gangs.remove(gang)

    def _ended(self, run: CarriedJob, worker: str, end: ActorEnd) -> None:
        """A worker has ended, in failure, well, or with its node: that is no fault of its own."""
        if end.status is not None:
            run.ended(worker, end.status, self._settings.out)
        elif run.workers[worker].host not in self._ray.nodes():
            del run.workers[worker]
        else:
            run.failed_by(worker, f"was lost: {end.loss}")
