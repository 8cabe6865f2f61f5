"""What a choice risks when workers are lost or join: from its policy, from short runs where there were some, else by formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polyrhythm.core.strategy.crew_policy import CrewPolicy, OnLoss
from polyrhythm.tools.planner.answer import CrewRisk
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.crew_runs import FIRST, NEWCOMER, WORKER
from polyrhythm.tools.planner.findings import Findings
from polyrhythm.tools.planner.interruptions import Interruptions, Standstills

_ALL = "everything since the last checkpoint"


@dataclass(slots=True)
class Rehearsed:
    """The standstills that short runs of a candidate showed, and why one of these failed, if one did."""

    seconds: dict[str, float] = field(default_factory=dict)
    obstacle: str = ""


def crew_risk(found: Findings, candidate: Candidate, rehearsed: Rehearsed, whole: float, given: Interruptions | None) -> CrewRisk | None:
    """The risk of a candidate that comes to the target after `whole` seconds, with the `given` interruptions; None where it has no run."""
    training, policy = found.training(candidate), CrewPolicy.of(candidate.strategy)
    if training is None or not training.samples:
        return None
    if candidate.is_alone or not policy.joins or (rehearsed.obstacle and not rehearsed.seconds):
        left = None if given is None else given.restarted(whole, candidate.workers)
        return CrewRisk(None, None, None, [], OnLoss.END.value, _ALL, [_ALL], rehearsed.obstacle, left)
    step = training.sample_seconds * found.per_step(candidate)
    expected = {
        WORKER: step if policy.worker is OnLoss.REFORM else 0.0,
        FIRST: step,
        NEWCOMER: training.begun[0],  # the weights are copied once
    }
    seconds: Mapping[str, float] = expected | rehearsed.seconds
    lost = ((candidate.workers - 1) * seconds[WORKER] + seconds[FIRST]) / candidate.workers
    told = given is not None and given.notice > step  # it finishes its step, and hands over what it has
    redone = 0.0 if told else step * policy.unsent / 2 / candidate.workers
    return CrewRisk(
        seconds[WORKER],
        seconds[FIRST],
        None if rehearsed.obstacle else seconds[NEWCOMER],
        list(rehearsed.seconds),
        policy.worker.value,
        policy.redone,
        list(policy.lost),
        rehearsed.obstacle,
        None if given is None else given.seconds(whole, candidate.workers, Standstills(lost, seconds[NEWCOMER], redone)),
    )
