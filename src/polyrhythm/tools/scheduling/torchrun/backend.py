"""The backend over torchrun: the agent of each host starts a torchrun for the workers that a job has there.

All workers of an attempt are one torch.distributed group, which cannot go on without one of them. So a job that shrinks or grows begins
anew with other hosts, when its last workers have ended; a script continues from what it has kept, as under torchrun's own restarts.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence

from polyrhythm.cluster import Action, Cluster, ClusterState, EvictJob, PlaceJob, ResizeJob, WorkerSlot
from polyrhythm.tools.scheduling.host_agents import HostAgents
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.job_run import CarriedJob, has_room, log_of
from polyrhythm.tools.scheduling.news import StartWorker, StopWorker
from polyrhythm.tools.scheduling.seen import JobsSeen, jobs_arrived
from polyrhythm.tools.scheduling.torchrun.commands import node_command, node_variables
from polyrhythm.tools.scheduling.training_jobs import TrainingJob
from polyrhythm.tools.scheduling.worker_commands import address_of, free_port


class TorchrunBackend:
    """The jobs of a list on the hosts of a cluster, by torchrun. `runs` has what has become of each job, `health` of each host."""

    def __init__(self, cluster: Cluster, jobs: Sequence[TrainingJob], settings: HostSettings, now: float) -> None:
        self._cluster = cluster
        self._settings = settings
        self._seen = JobsSeen(settings.restarts, self._stop)
        self._nodes: dict[str, list[str]] = {}
        """The workers of each torchrun, by the name of the first."""
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
        """The state after the news of all agents; attempts that waited for the end of the last one begin."""
        state = self._hosts.observed(jobs_arrived(state, self.runs, now), now)
        for run in self.runs.values():
            if run.next_slots is not None and not all(state.healthy(slot.host, slot.devices) for slot in run.next_slots):
                run.next_slots = None  # it is decided about again
            if run.next_slots is not None and self._may_begin(run, run.next_slots):
                slots, run.next_slots = run.next_slots, None
                self._begin(run, slots, run.system, now)
        return self._seen.after(state, self.runs, now)

    def carry_out(self, action: Action, now: float) -> bool:
        """Start torchrun on the hosts of a placement, or end it. False while there is no room, and where an agent takes no order."""
        run = self.runs[action.job]
        match action:
            case PlaceJob(placement):
                return self._may_begin(run, placement.slots) and self._begin(run, placement.slots, placement.system, now)
            case ResizeJob(placement, _):
                self._stop(run, list(run.workers))
                run.next_slots = placement.slots
            case EvictJob():
                self._stop(run, list(run.workers))
                run.next_slots = None
        return True

    def _may_begin(self, run: CarriedJob, slots: Sequence[WorkerSlot]) -> bool:
        """True when the workers of the last attempt have ended, and there is room for others."""
        are_heard = all(self._hosts.was_heard(slot.host) for slot in slots)
        return not run.leaving and are_heard and has_room(self._cluster, self.runs.values(), run, slots)

    def _begin(self, run: CarriedJob, slots: Sequence[WorkerSlot], system: str | None, now: float) -> bool:
        """Start all of it, or nothing."""
        hosts = list(dict.fromkeys(slot.host for slot in slots))
        addresses = tuple(address_of(self._cluster, host, self._settings.remote) for host in hosts)
        run.begin(secrets.token_hex(16), free_port(addresses[0], self._settings.remote), addresses, system, now)
        parts = [[slot for slot in slots if slot.host == host] for host in hosts]
        for node, part in enumerate(parts):
            workers = [run.next_worker(slot) for slot in part]
            self._nodes[workers[0]] = workers
            where = (self._settings.python, addresses[node], str(self._settings.out))
            command = node_command(run, node, [len(each) for each in parts], where)
            order = StartWorker(workers[0], command, node_variables(run, part), str(log_of(self._settings.out, workers[0])))
            if not self._hosts.order(hosts[node], order):
                for worker in self._nodes.pop(workers[0]):
                    del run.workers[worker]
                self._stop(run, list(run.workers))
                return False
        return True

    def _stop(self, run: CarriedJob, workers: Collection[str]) -> None:
        """Have the torchruns of these leave; how they end is of no interest any more."""
        for first, members in self._nodes.items():
            if not set(members).isdisjoint(workers) and first in run.workers:
                self._hosts.order(run.workers[first].host, StopWorker(first))
                for worker in members:
                    run.leaving[worker] = run.workers.pop(worker)

    def _ended(self, first: str, status: int) -> None:
        """One torchrun has ended; where it has failed, the others have nobody to go on with."""
        run = self.runs[first.partition("/")[0]]
        workers = self._nodes.pop(first, [])
        for worker in workers:
            run.leaving.pop(worker, None)
        # the first has the log, and its words are to be the last
        for worker in [worker for worker in reversed(workers) if worker in run.workers]:
            run.ended(worker, status, self._settings.out)
        if status:
            self._stop(run, list(run.workers))

    def _forget(self, host: str) -> None:
        """What a dead host still had has ended, with its agent or by its clock: others may take its place."""
        for run in self.runs.values():
            gone = {worker for worker, slot in run.leaving.items() if slot.host == host}
            run.leaving = {worker: slot for worker, slot in run.leaving.items() if worker not in gone}
            self._nodes = {first: workers for first, workers in self._nodes.items() if first not in gone}
