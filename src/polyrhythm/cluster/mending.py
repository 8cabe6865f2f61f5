"""Gangs that are not whole: those that lost hosts or devices, and those that a scheduler had started in part when it ended."""

from __future__ import annotations

from polyrhythm.cluster.protocols import Placer
from polyrhythm.cluster.reasons import ChangeReason, HostGone, PartialGang
from polyrhythm.cluster.transaction import Transaction


def mend(trial: Transaction, placer: Placer) -> dict[str, ChangeReason]:
    """Let each such gang go on with the workers that are left, complete it, or stop it; the reason for each that changed.

    Slots on what is lost are given up. A gang with fewer workers than it needs is completed where it has room, unless it lost some: then it
    starts anew from its state, since workers that were lost took theirs with them.
    """
    reasons: dict[str, ChangeReason] = {}
    for name, placement in list(trial.placements.items()):
        job = trial.state.jobs[name].job
        if not trial.state.lost and len(placement.slots) >= job.least:
            continue
        kept = tuple(slot for slot in placement.slots if trial.state.healthy(slot.host, slot.devices))
        lost = tuple(dict.fromkeys(slot.host for slot in placement.slots if slot not in kept))
        if not lost and len(placement.slots) >= job.least:
            continue
        if lost:
            reasons[name] = HostGone(lost)
            trial.remove(name)
            if len(kept) >= job.least:
                trial.place(trial.rated(placement, kept))
            continue
        reasons[name] = PartialGang(len(placement.slots), job.least)
        whole = placer.grow(trial.state.jobs[name], placement, trial)
        trial.remove(name)
        if whole is not None and len(whole.slots) >= job.least:
            trial.place(whole)
    return reasons
