"""The workers of a job that are there, as the decision is to know of them."""

from __future__ import annotations

from polyrhythm.cluster import ClusterState, JobPlacement, WorkersObserved
from polyrhythm.tools.scheduling.job_run import CarriedJob


def workers_seen(state: ClusterState, run: CarriedJob, now: float) -> ClusterState:
    """The workers that are there, if others than were ordered: some have failed. Those of lost hosts are left to the decision."""
    there = list(run.workers.values())
    for worker, slot in list(run.workers.items()):
        if not state.healthy(slot.host, slot.devices):
            del run.workers[worker]
    slots = state.running[run.name].slots
    if len(there) == len(slots) or (run.finished and there):
        return state
    if there and not run.training.job.is_malleable:
        return state  # those that are left notice it, and end too
    kept = tuple(slot for slot in slots if slot in there)
    return state.after(WorkersObserved(JobPlacement(run.name, kept)), now)
