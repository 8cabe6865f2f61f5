"""The decision: from a state, the time and a policy to what is to be done. It is pure, and the same for a simulation and a real cluster."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.cluster.actions import Action
from polyrhythm.cluster.admission import AdmissionPass, AdmissionRules
from polyrhythm.cluster.changes import changes
from polyrhythm.cluster.gang import GangPlacement
from polyrhythm.cluster.lines import Backfill, LineRule
from polyrhythm.cluster.mending import mend
from polyrhythm.cluster.orders import LeastAttained
from polyrhythm.cluster.preemption import Preemption, PreemptionRule
from polyrhythm.cluster.protocols import OrderPolicy, PlacementPolicy
from polyrhythm.cluster.state import ClusterState
from polyrhythm.cluster.transaction import Transaction
from polyrhythm.core.settings import checked


@dataclass(frozen=True, slots=True)
@checked
class SchedulerConfig:
    """A policy: the order of jobs, the placement of each, what a job that waits means for later ones, and when running ones make way.

    Examples:
        >>> from polyrhythm.cluster import FirstIn, NoPreemption, StrictLine
        >>> SchedulerConfig(FirstIn(), line=StrictLine(), preemption=NoPreemption()).order
        FirstIn()
    """

    order: OrderPolicy = LeastAttained()  # noqa: RUF009 (a frozen value)
    placement: PlacementPolicy = GangPlacement()  # noqa: RUF009 (a frozen value)
    line: LineRule = Backfill()  # noqa: RUF009 (a frozen value)
    preemption: PreemptionRule = Preemption()  # noqa: RUF009 (a frozen value)


def decide(state: ClusterState, now: float, config: SchedulerConfig) -> tuple[Action, ...]:
    """What is to be done: evictions and smaller gangs first, then places, and a reason for every job that waits.

    Gangs that lost workers go on with the rest if they can, or wait again. Then jobs start in the order of `config`. Malleable jobs grow
    if nobody waits. Nothing is changed here: `state.done(actions, now)` is the state afterwards.

    Examples:
        >>> from polyrhythm.cluster import Cluster, ClusterHost, ClusterJob, JobSubmitted, WorkerDemand
        >>> state = ClusterState(Cluster("home", (ClusterHost("laptop", cores=8),)))
        >>> for name, cores in (("first", 6), ("second", 4)):
        ...     state = state.after(JobSubmitted(ClusterJob(name, WorkerDemand(cores=cores))), now=0.0)
        >>> place, pending = decide(state, 0.0, SchedulerConfig())
        >>> place.placement.hosts, pending.reason.sentence
        (('laptop',), 'needs 1 worker in one cluster, and the best has room for 0: too few free cores')
    """
    trial = Transaction(state)
    placer = config.placement.prepare(state, now)
    reasons = mend(trial, placer)
    admission = AdmissionPass(trial, placer, AdmissionRules(config.order, config.line, config.preemption), now)
    waits = admission.admit()
    return changes(trial, {**reasons, **admission.reasons}, waits)
