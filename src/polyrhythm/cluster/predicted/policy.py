"""`predicted`: jobs, hosts, workers and systems chosen together, by predicted times."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from polyrhythm.cluster.devices import RingDevices
from polyrhythm.cluster.gang import GangPlacement
from polyrhythm.cluster.placements import JobPlacement
from polyrhythm.cluster.predicted.forecasts import Forecaster
from polyrhythm.cluster.predicted.joint_schedule import JointProblem, JointSchedule, JointSearch
from polyrhythm.cluster.predicted.ways import HostKinds
from polyrhythm.cluster.protocols import DevicePolicy, Placer
from polyrhythm.cluster.state import ClusterState, JobRecord
from polyrhythm.cluster.transaction import Transaction

_LATE = 0.1
"""The part of its time that a job which should have ended takes at least."""


@dataclass(frozen=True, slots=True)
class PredictedPlacement:
    """A joint schedule of the first `window` jobs that wait: what it starts now is placed, and the others wait for better hosts.

    The schedule has the smallest sum of ends that `JointSearch` finds. Running jobs are expected to end as predicted when they were placed;
    one that is late, as much later again as it is late already, and at least a tenth of its time.
    The sum counts every job once: use it with the order `FirstIn`, and without preemption.
    """

    forecaster: Forecaster
    window: int = 8
    devices: DevicePolicy = RingDevices()  # noqa: RUF009 (a frozen value)

    def prepare(self, state: ClusterState, now: float) -> PredictedPlacer:
        """The placer for one decision, with its schedule."""
        kinds, trial = HostKinds(state.cluster, self.devices), Transaction(state)
        problem = joint_problem(state, now, self.forecaster, kinds, trial, self.window)
        schedule = JointSearch().best(problem) if problem.records else None
        return PredictedPlacer(self, schedule, now, GangPlacement(devices=self.devices).prepare(state, now))


def joint_problem(
    state: ClusterState, now: float, forecaster: Forecaster, kinds: HostKinds, trial: Transaction, window: int
) -> JointProblem:
    """The jobs of `state` that wait, at most `window` of them, those of higher priority and those that came earlier first.

    Those that fit in no way are left out.
    """
    waiting = sorted(
        (record for record in state.jobs.values() if record.placement is None), key=lambda each: (-each.job.priority, each.sequence)
    )
    ways = {record.job.name: kinds.ways(record, trial, forecaster) for record in waiting[: 2 * window]}
    records = [record for record in waiting[: 2 * window] if ways[record.job.name]][:window]
    ends = {name: _predicted_end(state.jobs[name], now) for name in state.running}
    return JointProblem(records, ways, kinds, trial, ends, now)


def _predicted_end(record: JobRecord, now: float) -> float:
    if record.placement is not None and record.placement.seconds is not None:
        over = record.started + record.placement.seconds
        return over if over > now else now + max(now - over, _LATE * record.placement.seconds)
    ends = record.ends(now)
    return math.inf if ends is None else ends


class PredictedPlacer:
    """Places what the schedule starts now."""

    def __init__(self, policy: PredictedPlacement, schedule: JointSchedule | None, now: float, otherwise: Placer) -> None:
        self._policy, self._now, self._otherwise = policy, now, otherwise
        self.schedule = schedule

    def place(self, record: JobRecord, trial: Transaction) -> JobPlacement | None:
        """The slots of the schedule, if it starts the job now and they are free."""
        start = None if self.schedule is None else self.schedule.start_of(record.job.name)
        if start is None or start.starts > self._now or not trial.fits(start.placement):
            return None
        return start.placement

    def grow(self, record: JobRecord, held: JobPlacement, trial: Transaction) -> JobPlacement | None:
        """More slots if the forecast with them is a tenth shorter, or if the gang is not whole."""
        grown = self._otherwise.grow(record, held, trial)
        if grown is None or len(held.slots) < record.job.least:
            return grown
        now, then = (self._policy.forecaster.forecast(record.job, each.slots, trial.cluster) for each in (held, grown))
        if now is None or then is None or then.seconds > 0.9 * now.seconds:
            return None
        return replace(grown, system=then.system, seconds=None if held.seconds is None else held.seconds * then.seconds / now.seconds)
