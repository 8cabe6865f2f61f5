"""Plans of several jobs by forecasts, and the policy that follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from polyrhythm.cluster import (
    Cluster,
    ClusterHost,
    ClusterJob,
    ClusterState,
    JobEnded,
    JobPending,
    JobSubmitted,
    PartLost,
    PlaceJob,
    WorkerSlot,
    decide,
)
from polyrhythm.cluster.predicted import Forecast
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.cluster_plan import plan_cluster
from polyrhythm.tools.scheduling.policies import policy
from polyrhythm.tools.scheduling.training_jobs import TrainingJob, TrainingOrder, goals_of

SPEED = {"raspberry-pi-4": 1.0, "laptop": 2.0, "cpu-core": 1.5}
CLUSTER = Cluster(
    "home",
    (
        ClusterHost("slow", cores=1, machine="raspberry-pi-4"),
        ClusterHost("fast", cores=1, machine="laptop", price_per_hour=36.0),
        ClusterHost("other", cores=1),
    ),
)


@dataclass(frozen=True)
class Known:
    """Forecasts by a rule: work divided by the speed of the slowest host and their number; 10 % is lost for each more."""

    work: dict[str, float]

    def forecast(self, job: ClusterJob, slots: Sequence[WorkerSlot], cluster: Cluster) -> Forecast | None:
        if self.work[job.name] == 0:
            return None
        slowest = min(SPEED[cluster.host(slot.host).machine] for slot in slots)
        seconds = self.work[job.name] / (slowest * len(slots)) * 1.1 ** (len(slots) - 1)
        return Forecast(seconds, "allreduce" if len(slots) == 1 else "diloco")


def _jobs(*names: str, workers: int = 3, least: int = 1) -> list[ClusterJob]:
    return [ClusterJob(name, workers=workers, min_workers=least) for name in names]


def test_the_large_job_has_the_fast_host() -> None:
    made = plan_cluster(CLUSTER, _jobs("large", "small", workers=1), Known({"large": 40.0, "small": 4.0}))
    found = {each.job: each for each in made.jobs}
    assert found["large"].placement.hosts == ("fast",)
    assert found["small"].placement.hosts == ("other",)
    assert found["large"].cost == pytest.approx(0.2)  # 20 s at 36 an hour
    assert made.is_optimal


def test_what_follows_without_each_host_is_in_the_plan() -> None:
    made = plan_cluster(CLUSTER, _jobs("large", workers=1), Known({"large": 40.0}))
    assert {each.host: each.mean_completion for each in made.losses} == pytest.approx({"fast": 40.0 / 1.5})
    alone = plan_cluster(Cluster("one", CLUSTER.hosts[:2]), _jobs("wide", workers=2, least=2), Known({"wide": 8.0}))
    assert [each.stranded for each in alone.losses] == [("wide",), ("wide",)]


def test_a_job_that_comes_to_no_target_is_named() -> None:
    made = plan_cluster(CLUSTER, _jobs("hopeless", "small"), Known({"hopeless": 0.0, "small": 4.0}))
    assert list(made.refused) == ["hopeless"]
    assert [each.job for each in made.jobs] == ["small"]


def test_a_job_without_a_target_cannot_be_forecast() -> None:
    with pytest.raises(CompositionError, match="has no target"):
        goals_of([TrainingJob(ClusterJob("a"), TrainingOrder("digits-mlp"))])


def test_the_policy_follows_the_plan_and_makes_it_anew_without_a_lost_host() -> None:
    jobs = _jobs("large", "small", workers=1)
    config = policy("predicted", lambda: Known({"large": 40.0, "small": 4.0}))
    state = ClusterState(CLUSTER)
    for each in jobs:
        state = state.after(JobSubmitted(each), 0.0)
    placed = {action.job: action.placement for action in decide(state, 0.0, config) if isinstance(action, PlaceJob)}
    assert placed["large"].hosts == ("fast",)
    assert placed["large"].system == "allreduce"
    state = state.done(decide(state, 0.0, config), 0.0)
    state = state.after(PartLost("fast"), 1.0)
    actions = decide(state, 1.0, config)
    state = state.done(actions, 1.0)
    # the slow host is free, but the other one will be soon, and the job ends earlier there
    waits = {action.job: action.reason.sentence for action in actions if isinstance(action, JobPending)}
    assert waits["large"] == "has room, and the policy keeps it for a better choice"
    state = state.after(JobEnded("small"), 3.0)
    state = state.done(decide(state, 3.0, config), 3.0)
    assert state.running["large"].hosts == ("other",)
