"""The backend over SLURM: a placed job is a batch job on the nodes of its placement, and a worker of a crew is one by itself."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from polyrhythm.cluster import (
    Action,
    Cluster,
    ClusterState,
    EvictJob,
    JobPlacement,
    PartLost,
    PartRestored,
    PartSuspected,
    PlaceJob,
    ResizeJob,
    WorkerSlot,
    WorkersObserved,
)
from polyrhythm.errors import CompositionError
from polyrhythm.launchers.slurm import Slurm
from polyrhythm.tools.scheduling.host_settings import HostSettings
from polyrhythm.tools.scheduling.job_run import CarriedJob, log_of
from polyrhythm.tools.scheduling.seen import JobsSeen, jobs_arrived
from polyrhythm.tools.scheduling.slurm.batch_notes import note_of, notes_in, path_of, write_note
from polyrhythm.tools.scheduling.slurm.commands import OVER, TAKEN_AWAY, WAITING, NodeState, QueuedJob, SlurmCommands
from polyrhythm.tools.scheduling.slurm.script import PlacedScript
from polyrhythm.tools.scheduling.training_jobs import TrainingJob
from polyrhythm.tools.scheduling.worker_commands import free_port, join_command, settings_of

_UNKNOWN_SECONDS = 60.0
"""After so many seconds a job that neither squeue nor sacct has is taken for one that failed."""


@dataclass(slots=True)
class _Batch:
    """A batch job of SLURM: its workers, of this job, and when SLURM has last had it."""

    job: str
    workers: list[str]
    seen: float


class SlurmBackend:
    """The jobs of a list on nodes of SLURM, which are the hosts of a cluster. SLURM keeps the workers in their limits and says which
    nodes are down; a placed job may still wait in its queue for jobs of others.

    Of `engine` the options of sbatch, and the restarts, matter.
    """

    def __init__(self, cluster: Cluster, jobs: Sequence[TrainingJob], settings: HostSettings, engine: Slurm) -> None:
        self._cluster = cluster
        self._settings = settings
        self._engine = engine
        self._slurm = SlurmCommands()
        self._seen = JobsSeen(engine.restarts, self._stop)
        self._nodes: dict[str, NodeState] = {}
        self._batches: dict[str, _Batch] = {}
        self._asked: float | None = None
        self._again: dict[str, float] = {}
        self.runs = {each.job.name: CarriedJob(each) for each in jobs}

    @property
    def health(self) -> Mapping[str, str]:
        """The health of each host: SLURM's word for it, unless it may be used."""
        words = {name: state.word for name, state in self._nodes.items() if state.lost or state.closed}
        return {host.name: words.get(host.name, "healthy") for host in self._cluster.hosts}

    @property
    def agents(self) -> Mapping[str, int]:
        """None: SLURM's daemons have the workers."""
        return {}

    @property
    def over(self) -> bool:
        """True when all jobs have ended or failed."""
        return all(run.over is not None for run in self.runs.values())

    def ready(self) -> bool:
        """True when SLURM has named its nodes. Raises CompositionError where a host is none of them."""
        nodes = self._slurm.nodes()
        if nodes is None:
            return False
        missing = [host.name for host in self._cluster.hosts if host.name not in nodes]
        if missing:
            raise CompositionError(
                f"SLURM has no node {missing[0]!r}; it has {', '.join(sorted(nodes)) or 'none'}. Name the hosts of SITE as sinfo does."
            )
        self._nodes = nodes
        return True

    def close(self) -> None:
        """Cancel all that is left."""
        self._slurm.cancel(self._batches)
        for number in self._batches:
            self._forget(number)

    def observed(self, state: ClusterState, now: float) -> ClusterState:
        """The state after what SLURM says of nodes and jobs, which it is asked once in `interval` seconds."""
        is_first = self._asked is None
        state = jobs_arrived(state, self.runs, now)
        if self._asked is not None and now < self._asked + self._settings.interval:
            return state
        self._asked = now
        state = self._with_nodes(state, now)
        if is_first:
            state = self._adopted(state, now)
        self._look(now)
        return self._seen.after(state, self.runs, now)

    def carry_out(self, action: Action, now: float) -> bool:
        """Submit batch jobs, or cancel them. False where sbatch refuses, which is tried again after `interval` seconds."""
        run = self.runs[action.job]
        if now < self._again.get(run.name, now) and not isinstance(action, EvictJob):
            return False
        match action:
            case PlaceJob(placement):
                if run.leaving:  # those of the last attempt have not ended yet
                    return False
                hosts = [*placement.hosts, *(host.name for host in self._cluster.hosts if host.name not in placement.hosts)]
                run.begin(secrets.token_hex(16), free_port(hosts[0], remote=True), tuple(hosts), placement.system, now)
                if not self._start(run, placement.slots, now):
                    self._stop(run, set(run.workers))
                    return False
            case ResizeJob(placement, _):
                left = list(placement.slots)
                leaving = set()
                for worker, slot in run.workers.items():
                    if slot in left:
                        left.remove(slot)
                    else:
                        leaving.add(worker)
                self._stop(run, leaving)
                return self._start(run, left, now)
            case EvictJob():
                self._stop(run, set(run.workers))
        return True

    def _start(self, run: CarriedJob, slots: Sequence[WorkerSlot], now: float) -> bool:
        groups = [[slot] for slot in slots] if run.training.job.is_malleable else [list(slots)]
        return all(self._submitted(run, group, now) for group in groups)

    def _submitted(self, run: CarriedJob, slots: Sequence[WorkerSlot], now: float) -> bool:
        """Submit the workers of these slots as one batch job."""
        job, out = run.training.job, self._settings.out
        workers = [run.next_worker(slot) for slot in slots]
        log = log_of(out, workers[0])
        log.parent.mkdir(parents=True, exist_ok=True)
        note = write_note(note_of(run, workers), out)
        script = PlacedScript(job.name, slots, job.demand, log, (f"--comment={note}", *self._engine.options))
        address = slots[0].host if job.is_malleable else ""
        command = join_command(run, workers[0], (self._settings.python, address, out))
        done = self._slurm.submit(script.of_member(command) if job.is_malleable else script.of_gang(command), settings_of(run))
        if done.number is None:
            self._again[run.name] = now + self._settings.interval
            note.unlink()
            for worker in workers:
                run.failed_by(worker, f"was not taken by SLURM: {done.refusal}")
            return False
        write_note(note_of(run, workers, done.number), out)
        self._batches[done.number] = _Batch(job.name, workers, now)
        return True

    def _stop(self, run: CarriedJob, workers: Collection[str]) -> None:
        """Cancel the batch jobs of these workers, which are whole gangs."""
        gone = {number for number, batch in self._batches.items() if batch.job == run.name and not set(batch.workers).isdisjoint(workers)}
        self._slurm.cancel(gone)
        for number in gone:
            self._forget(number)
            for worker in self._batches[number].workers:
                if worker in run.workers:
                    run.leaving[number] = run.workers.pop(worker)

    def _forget(self, number: str) -> None:
        """No scheduler after this one is to take the batch job over."""
        path_of(self._settings.out, self._batches[number].workers[0]).unlink(missing_ok=True)

    def _adopted(self, state: ClusterState, now: float) -> ClusterState:
        """The state with the workers of batch jobs that a scheduler before this one has submitted, and that have not been seen to end."""
        states = self._slurm.states() or {}
        numbers = {queued.comment: number for number, queued in states.items()}
        for name, run in self.runs.items():
            for path, note in notes_in(self._settings.out, name):
                number = note.number or numbers.get(str(path))
                if number is None or run.over is not None or note.attempt < run.attempt:  # it was never taken, or is not wanted any more
                    self._slurm.cancel([] if number is None else [number])
                    path.unlink()
                    continue
                run.adopt(note.secret, note.port, note.addresses, note.system, note.attempt)
                run.begun = now
                run.workers |= note.slots
                self._batches[number] = _Batch(name, list(note.workers), now)
            if run.workers and name in state.jobs:
                state = state.after(WorkersObserved(JobPlacement(name, tuple(run.workers.values()))), now)
        return state

    def _with_nodes(self, state: ClusterState, now: float) -> ClusterState:
        """The state after what has happened to nodes."""
        self._nodes = self._slurm.nodes() or self._nodes
        for host in self._cluster.hosts:
            node, part = self._nodes.get(host.name), (host.name, None)
            lost, closed = node is None or node.lost, node is not None and node.closed
            if (part in state.lost and not lost) or (part in state.suspected and not closed):
                state = state.after(PartRestored(host.name), now)
            if lost and part not in state.lost:
                state = state.after(PartLost(host.name), now)
            elif closed and part not in state.suspected:
                state = state.after(PartSuspected(host.name), now)
        return state

    def _look(self, now: float) -> None:
        """Take in which batch jobs have ended, and how."""
        states = self._slurm.states()
        if states is None:
            return
        for number in states.keys() & self._batches.keys():
            self._batches[number].seen = now
        self._hold(states)
        ended = {number for number in self._batches if number not in states or states[number].state in OVER}
        accounted = self._slurm.accounted(ended)
        for number in sorted(ended, key=int):
            queued = states[number].state if number in states else ""
            batch, (state, status) = self._batches[number], accounted.get(number, (queued, 1))
            if state not in OVER:  # the accounting comes later, or is not kept
                if number in states:
                    state = queued
                elif now < batch.seen + _UNKNOWN_SECONDS:
                    continue
            self._forget(number)
            del self._batches[number]
            run = self.runs[batch.job]
            run.leaving.pop(number, None)
            # the first worker has the log, and its words are to be the last
            self._ended(run, [worker for worker in reversed(batch.workers) if worker in run.workers], (state, status))

    def _hold(self, states: Mapping[str, QueuedJob]) -> None:
        """Say of each job of which a batch job is in SLURM's own queue, why."""
        for name, run in self.runs.items():
            queued = (states[number] for number, batch in self._batches.items() if batch.job == name and number in states)
            waits = next((each for each in queued if each.state in WAITING), None)
            run.held = "" if waits is None else f"SLURM keeps it waiting ({waits.reason or waits.state})"

    def _ended(self, run: CarriedJob, workers: Sequence[str], how: tuple[str, int]) -> None:
        """Workers have ended: well, by no fault of their own, or in failure."""
        state, status = how
        for worker in workers:
            if state == "COMPLETED":
                run.ended(worker, 0, self._settings.out)
            elif state in TAKEN_AWAY:
                del run.workers[worker]
            elif state == "FAILED":
                run.ended(worker, status or 1, self._settings.out)
            else:
                run.failed_by(worker, f"was ended by SLURM: {state or 'it does not know the job any more'}")
