"""What has become of the jobs that are carried out, as the decision is to know of it: those that came, ended, or lost workers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from polyrhythm.cluster import ClusterState, JobEnded, JobPlacement, JobSubmitted, WorkersObserved
from polyrhythm.cluster.changes import common_slots
from polyrhythm.tools.scheduling.job_run import CarriedJob

_LINGER_SECONDS = 30.0
"""Of a fixed number of workers, what the others of one that failed have, to notice it and to say so."""
_LATE_SECONDS = 1.0
"""Members of a crew leave it together, and a signal does not break off their records: what is there longer has come too late."""


def jobs_arrived(state: ClusterState, runs: Mapping[str, CarriedJob], now: float) -> ClusterState:
    """The state with those of `runs` that are to be carried out."""
    for name, run in runs.items():
        if name not in state.jobs and run.over is None:
            state = state.after(JobSubmitted(run.training.job), now)
    return state


@dataclass(frozen=True, slots=True)
class JobsSeen:
    """What follows from how workers have ended: those on what is lost, and those that are left over, are stopped by `stop`; a job of which
    workers fail more than `restarts` times each has failed."""

    restarts: int
    stop: Callable[[CarriedJob, Collection[str]], None]

    def after(self, state: ClusterState, runs: Mapping[str, CarriedJob], now: float) -> ClusterState:
        """The state without the jobs that are over, and with the workers of the others that are there."""
        for name, run in runs.items():
            if name not in state.jobs:
                continue
            lost = {worker for worker, slot in run.workers.items() if not state.healthy(slot.host, slot.devices)}
            self.stop(run, [worker for worker in run.workers if worker in lost])
            self.stop(run, run.lingering(_LATE_SECONDS if run.training.job.is_malleable else _LINGER_SECONDS, now))
            if run.settle(self.restarts, now):
                self.stop(run, list(run.workers))
                state = state.after(JobEnded(name), now)
            elif name in state.running and run.next_slots is None:
                state = workers_seen(state, run, now)
        return state


def workers_seen(state: ClusterState, run: CarriedJob, now: float) -> ClusterState:
    """The state with the workers that are there, if others than were ordered: some have failed. Lost places are left to the decision."""
    slots = state.running[run.name].slots
    lost = [slot for slot in slots if not state.healthy(slot.host, slot.devices)]
    well = [slot for slot in run.workers.values() if state.healthy(slot.host, slot.devices)]
    kept = common_slots(slots, [*well, *lost])
    if len(kept) == len(slots) or (run.finished and (well or lost)):
        return state
    if (well or lost) and not run.training.job.is_malleable:
        return state  # those that are left notice it, and end too
    return state.after(WorkersObserved(JobPlacement(run.name, kept)), now)
