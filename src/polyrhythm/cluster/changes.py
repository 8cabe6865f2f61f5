"""The actions that lead from a state to what a trial has made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from polyrhythm.cluster.actions import Action, EvictJob, JobPending, PlaceJob, ResizeJob
from polyrhythm.cluster.placements import WorkerSlot
from polyrhythm.cluster.reasons import ChangeReason, Grown, WaitReason
from polyrhythm.cluster.transaction import Transaction


def changes(trial: Transaction, reasons: Mapping[str, ChangeReason], waits: Mapping[str, WaitReason]) -> tuple[Action, ...]:
    """What frees something first, then what takes it, then who waits; each in the order of arrival.

    A job that keeps some workers, and has others anew, first gives up the rest: nothing is taken before it is free.
    """
    frees: list[Action] = []
    takes: list[Action] = []
    for name, record in trial.state.jobs.items():
        before, after = record.placement, trial.placements.get(name)
        if before is not None and after is None:
            frees.append(EvictJob(name, reasons[name]))
        elif before is None and after is not None:
            takes.append(PlaceJob(after))
        elif before is not None and after is not None and before.slots != after.slots:
            kept = common_slots(before.slots, after.slots)
            if len(kept) < min(record.job.least, len(before.slots)):
                frees.append(EvictJob(name, reasons[name]))
                takes.append(PlaceJob(after))
                continue
            if len(kept) < len(before.slots):
                frees.append(ResizeJob(trial.rated(before, kept), reasons[name]))
            if len(kept) < len(after.slots):
                takes.append(ResizeJob(after, reasons.get(name, Grown(len(after.slots)))))
    return (*frees, *takes, *(JobPending(name, reason) for name, reason in waits.items()))


def common_slots(before: Sequence[WorkerSlot], after: Sequence[WorkerSlot]) -> tuple[WorkerSlot, ...]:
    """The slots in both, each as often as it is in both: workers that share a device, or need none, have equal slots."""
    left = Counter(after)
    kept = []
    for slot in before:
        if left[slot]:
            left[slot] -= 1
            kept.append(slot)
    return tuple(kept)
