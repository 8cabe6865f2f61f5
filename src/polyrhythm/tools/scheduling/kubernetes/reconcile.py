"""The state of the decision, brought to what a cluster shows. Pure: the same view twice changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from polyrhythm.cluster import (
    ClusterState,
    JobEnded,
    JobPlacement,
    JobRecord,
    JobSubmitted,
    PartLost,
    PartRestored,
    PartSuspected,
    WorkersObserved,
)
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.kubernetes.view import ClusterView


def reconciled(state: ClusterState, view: ClusterView, absent: Mapping[str, JobRecord], now: float) -> ClusterState:
    """The state after what the view shows. A job that is shown again after it was stopped has its record among those that are `absent`.

    A gang comes when all of its pods are there. Where two gangs have one device, as after two schedulers, the later one is shown without a
    place, and so is evicted by whoever carries decisions out.
    """
    if view.cluster is not None and view.cluster != state.cluster:
        state = _on(view, state, now)
    known, shown = state.lost | state.suspected, view.lost | view.closed
    for host, device in sorted(known - shown | (state.lost & view.closed) - view.lost, key=str):
        state = state.after(PartRestored(host, device), now)
    for host, device in sorted(view.closed - state.suspected, key=str):
        state = state.after(PartSuspected(host, device), now)
    for host, device in sorted(view.lost - state.lost, key=str):
        state = state.after(PartLost(host, device), now)
    for name in [name for name in state.jobs if name not in view.jobs]:
        state = state.after(JobEnded(name), now)
    # what has less than before comes first, so that others find the room
    running = state.running  # made anew at each reading
    changed = [name for name in view.jobs if name in state.jobs and not _same(running.get(name), view.placements[name])]
    for name in sorted(changed, key=lambda name: (len(view.placements[name].slots), name)):
        state = _observed(state, view.placements[name], now)
    for name, job in view.jobs.items():
        if name not in state.jobs and (view.placements[name].slots or len(view.gangs[name].pods) >= job.workers):
            state = state.after(JobSubmitted(job), now)
            if name in absent:
                jobs = {**state.jobs, name: replace(absent[name], job=job)}
                ordered = dict(sorted(jobs.items(), key=lambda each: each[1].sequence))
                state = replace(state, jobs=MappingProxyType(ordered))
            state = _observed(state, view.placements[name], now)
    return state


def _on(view: ClusterView, state: ClusterState, now: float) -> ClusterState:
    """The state on other hosts: placements are taken from the view anew."""
    assert view.cluster is not None
    jobs = {name: record if record.placement is None else record.paused(now) for name, record in state.jobs.items()}
    moved = ClusterState(view.cluster, jobs, view.lost, view.closed, state.epoch + 1, state.arrivals)
    for name, record in state.jobs.items():
        if record.placement is not None and name in view.placements:
            moved = _observed(moved, view.placements[name], now)
    return moved


def _observed(state: ClusterState, placement: JobPlacement, now: float) -> ClusterState:
    if not placement.slots and placement.job not in state.running:
        return state
    rated = replace(placement, quality=state.cluster.quality([(slot.host, slot.devices) for slot in placement.slots]))
    try:
        return state.after(WorkersObserved(rated), now)
    except CompositionError:
        return state.after(WorkersObserved(JobPlacement(placement.job, ())), now)


def _same(known: JobPlacement | None, seen: JobPlacement) -> bool:
    slots = known.slots if known else ()
    return slots == seen.slots or Counter(slots) == Counter(seen.slots)
