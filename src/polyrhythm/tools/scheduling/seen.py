"""The workers of a job that are there, as the decision is to know of them."""

from __future__ import annotations

from polyrhythm.cluster import ClusterState, JobPlacement, WorkersObserved
from polyrhythm.cluster.changes import common_slots
from polyrhythm.tools.scheduling.job_run import CarriedJob


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
