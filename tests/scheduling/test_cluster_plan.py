"""Plans of several jobs by forecasts, and the policy that follows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    decide,
)
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.cluster_plan import make_plan, predicted
from polyrhythm.tools.scheduling.options import host_sets
from polyrhythm.tools.scheduling.predictions import JobForecast, PlannedForecaster
from polyrhythm.tools.scheduling.training_jobs import TrainingJob, TrainingOrder

SPEED = {"slow": 1.0, "fast": 2.0, "other": 1.5}
CLUSTER = Cluster(
    "home", (ClusterHost("slow", cores=1), ClusterHost("fast", cores=1, price_per_hour=36.0), ClusterHost("other", cores=1)), ()
)


@dataclass
class Known:
    """Forecasts by a rule: work divided by the speed of the slowest host and their number; 10 % is lost for each more."""

    work: dict[str, float]
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def forecast(self, job: str, hosts: Sequence[str]) -> JobForecast | None:
        self.asked.append((job, tuple(hosts)))
        if self.work[job] == 0:
            return None
        slowest = min(SPEED.get(host, 1.0) for host in hosts)
        seconds = self.work[job] / (slowest * len(hosts)) * 1.1 ** (len(hosts) - 1)
        return JobForecast(seconds, seconds, seconds, "allreduce" if len(hosts) == 1 else "diloco")


def _jobs(*names: str, workers: int = 3, least: int = 1) -> list[TrainingJob]:
    return [TrainingJob(ClusterJob(name, workers=workers, min_workers=least), TrainingOrder("train.py")) for name in names]


def test_the_large_job_has_the_fast_host() -> None:
    made = make_plan(CLUSTER, _jobs("large", "small", workers=1), Known({"large": 40.0, "small": 4.0}))
    found = {job.name: job for job in made.jobs}
    assert found["large"].hosts == {"fast": 1}
    assert found["small"].hosts == {"other": 1}
    assert found["large"].cost == pytest.approx(0.2)  # 20 s at 36 an hour
    assert made.is_optimal


def test_what_follows_without_each_host_is_in_the_plan() -> None:
    made = make_plan(CLUSTER, _jobs("large", workers=1), Known({"large": 40.0}))
    assert {each.host: each.mean for each in made.without} == pytest.approx({"slow": 20.0, "fast": 40.0 / 1.5, "other": 20.0})
    alone = make_plan(Cluster("one", CLUSTER.hosts[:2]), _jobs("wide", workers=2, least=2), Known({"wide": 8.0}))
    assert [each.impossible for each in alone.without] == [["wide"], ["wide"]]


def test_a_job_that_comes_to_no_target_is_named() -> None:
    made = make_plan(CLUSTER, _jobs("hopeless", "small"), Known({"hopeless": 0.0, "small": 4.0}))
    assert made.impossible == ["hopeless"]
    assert [job.name for job in made.jobs] == ["small"]


def test_a_job_without_a_target_cannot_be_forecast() -> None:
    (job,) = _jobs("a")
    with pytest.raises(CompositionError, match="has no target"):
        PlannedForecaster(CLUSTER, {"a": job}).forecast("a", ["slow"])


def test_sets_of_hosts_have_all_workers_or_as_many_as_a_crew_may_be() -> None:
    fixed, crew = ClusterJob("f", workers=2), ClusterJob("c", workers=3, min_workers=2)
    assert [dict(each) for each in host_sets(fixed, CLUSTER.hosts[:2])] == [{"slow": 1, "fast": 1}]
    assert sorted(len(each) for each in host_sets(crew, CLUSTER.hosts)) == [2, 2, 2, 3]


def test_the_policy_follows_the_plan_and_makes_it_anew_without_a_lost_host() -> None:
    jobs = _jobs("large", "small", workers=1)
    config = predicted(CLUSTER, jobs, Known({"large": 40.0, "small": 4.0}))
    state = ClusterState(CLUSTER)
    for each in jobs:
        state = state.after(JobSubmitted(each.job), 0.0)
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
