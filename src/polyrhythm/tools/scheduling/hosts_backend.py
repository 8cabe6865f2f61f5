"""The backend over hosts that are reached by a command such as ssh, or that are parts of this machine: an agent on each, whose beats say
that it is there, starts the workers. Those of a malleable job are a crew, which shrinks and grows while it trains. A place is given away
when its worker has ended; that of a dead host has when the time is up after which an agent that is not heard ends by its own clock.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence

from polyrhythm.cluster import Action, Cluster, ClusterState, EvictJob, PlaceJob, ResizeJob, WorkerSlot
from polyrhythm.tools.scheduling.host_agents import HostAgents
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.job_run import CarriedJob, has_room
from polyrhythm.tools.scheduling.news import StopWorker
from polyrhythm.tools.scheduling.seen import JobsSeen, jobs_arrived
from polyrhythm.tools.scheduling.training_jobs import TrainingJob
from polyrhythm.tools.scheduling.worker_commands import address_of, free_port, start_of


class HostsBackend:
    """The jobs of a list on the hosts of a cluster. `runs` has what has become of each job, `health` of each host."""

    def __init__(self, cluster: Cluster, jobs: Sequence[TrainingJob], settings: HostSettings, now: float) -> None:
        self._cluster = cluster
        self._settings = settings
        self._seen = JobsSeen(settings.restarts, self._stop)
        self.runs = {each.job.name: CarriedJob(each) for each in jobs}
        self._hosts = HostAgents(cluster, settings, now, self._ended, self._forget)

    @property
    def health(self) -> Mapping[str, str]:
        """The health of each host, in a word."""
        return self._hosts.health

    @property
    def agents(self) -> Mapping[str, int]:
        """The process of each host's agent here, with which its workers end."""
        return self._hosts.processes

    @property
    def over(self) -> bool:
        """True when all jobs have ended or failed."""
        return all(run.over is not None for run in self.runs.values())

    def ready(self) -> bool:
        """True when every host has given a beat, or has been too late for it."""
        return self._hosts.ready()

    def close(self) -> None:
        """End all workers and agents."""
        self._hosts.close()

    def observed(self, state: ClusterState, now: float) -> ClusterState:
        """The state after the news of all agents: jobs that are over, workers that have ended, hosts and GPUs that are lost or back."""
        state = self._hosts.observed(jobs_arrived(state, self.runs, now), now)
        return self._seen.after(state, self.runs, now)

    def carry_out(self, action: Action, now: float) -> bool:
        """Start workers, or have them leave. False while those that leave still have their room, and where an agent takes no order."""
        run = self.runs[action.job]
        match action:
            case PlaceJob(placement):
                hosts = [*placement.hosts, *(host.name for host in self._cluster.hosts if host.name not in placement.hosts)]
                addresses = tuple(address_of(self._cluster, host, self._settings.remote) for host in hosts)
                if run.leaving or not self._has_room(run, placement.slots):  # those of the last attempt have not ended yet
                    return False
                port = free_port(addresses[0], self._settings.remote)
                run.begin(secrets.token_hex(16), port, addresses, placement.system, now)
                return self._start(run, placement.slots)
            case ResizeJob(placement, _):
                left = list(placement.slots)
                leaving = []
                for worker, slot in run.workers.items():
                    if slot in left:
                        left.remove(slot)
                    else:
                        leaving.append(worker)
                self._stop(run, leaving)
                return self._has_room(run, left) and self._start(run, left)
            case EvictJob():
                self._stop(run, list(run.workers))
        return True

    def _has_room(self, run: CarriedJob, slots: Sequence[WorkerSlot]) -> bool:
        are_heard = all(self._hosts.was_heard(slot.host) for slot in slots)
        return are_heard and has_room(self._cluster, self.runs.values(), run, slots)

    def _start(self, run: CarriedJob, slots: Sequence[WorkerSlot]) -> bool:
        """Start all of these workers, or none: those that were there before go on in either case."""
        begun: list[str] = []
        for rank, slot in enumerate(slots):
            begun.append(run.next_worker(slot))
            where = (self._settings.python, address_of(self._cluster, slot.host, self._settings.remote), self._settings.out)
            if not self._hosts.order(slot.host, start_of(run, begun[-1], rank, slot, where)):
                del run.workers[begun.pop()]
                self._stop(run, begun)
                return False
        return True

    def _stop(self, run: CarriedJob, workers: Collection[str]) -> None:
        """Have these leave; how they end is of no interest any more."""
        for worker in workers:
            run.leaving[worker] = slot = run.workers.pop(worker)
            self._hosts.order(slot.host, StopWorker(worker))

    def _ended(self, worker: str, status: int) -> None:
        run = self.runs[worker.partition("/")[0]]
        run.leaving.pop(worker, None)
        if worker in run.workers:
            run.ended(worker, status, self._settings.out)

    def _forget(self, host: str) -> None:
        """The workers that a dead host still had have ended, with its agent or by its clock: others may take their place."""
        for run in self.runs.values():
            run.leaving = {worker: slot for worker, slot in run.leaving.items() if slot.host != host}
