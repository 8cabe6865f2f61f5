"""Predictions of how long a job takes on a set of hosts, and with which system: by `pr.plan`, in virtual time, each asked for once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from polyrhythm.cluster import Cluster
from polyrhythm.core.records.progress import board
from polyrhythm.errors import CompositionError
from polyrhythm.hardware import devices
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.tools.planner.plan import PlanRequest
from polyrhythm.tools.scheduling.training_jobs import TrainingJob
from polyrhythm.workloads.load import load_workload

ANY = "any"
"""The system of a job for which the planner may choose among all."""


@dataclass(frozen=True, slots=True)
class JobForecast:
    """The seconds until a job comes to its target, between bounds, and the system that takes the fewest."""

    seconds: float
    low: float
    high: float
    system: str
    why: str = ""


class Forecaster(Protocol):
    """Something that predicts the seconds of a job by the hosts of its workers."""

    def forecast(self, job: str, hosts: Sequence[str]) -> JobForecast | None:
        """The forecast for one worker on each of `hosts`, which may be named several times; None where the target is not reached."""


@dataclass(slots=True)
class PlannedForecaster:
    """Asks the planner, with a budget of so many seconds for each question.

    Workers on machines of the same models, divided alike among sites, are the same question.
    """

    cluster: Cluster
    jobs: Mapping[str, TrainingJob]
    budget: float = 20.0
    asked: Callable[[str], None] = lambda text: None
    known: dict[tuple[object, ...], JobForecast | None] = field(default_factory=dict)

    def forecast(self, job: str, hosts: Sequence[str]) -> JobForecast | None:
        """The forecast of the planner."""
        ordered = sorted(hosts, key=lambda name: (self.cluster.host(name).site, self.cluster.host(name).machine, name))
        key = (job, tuple((self.cluster.host(name).machine, self.cluster.host(name).site) for name in ordered))
        if key not in self.known:
            self.known[key] = self._planned(self.jobs[job], ordered)
        return self.known[key]

    def _planned(self, wanted: TrainingJob, hosts: Sequence[str]) -> JobForecast | None:
        train = wanted.train
        if train.to is None:
            raise CompositionError(
                f"The job {wanted.job.name!r} has no target to predict the time to: give it jobs.train.to, such as accuracy=0.95."
            )
        self.asked(f"{wanted.job.name} on {', '.join(hosts)}")
        machines = tuple(devices.load(self.cluster.host(name).machine) for name in hosts)
        request = PlanRequest(
            train.to,
            network=self.cluster.network_of(hosts),
            devices=Fleet(machines),
            workers=(len(hosts),),
            budget=self.budget,
            systems=None if train.system == ANY else [train.system],
            settings={name: str(value) for name, value in train.set.items()},
            seed=train.seed,
            jobs=os.cpu_count(),
        )
        with board(1, wanted=False) as line:
            planner = request.planner(load_workload(train.job), train.job, request.pool_with(line))
            plan = planner.plan()
        those = [plan.alone] if len(hosts) == 1 else [choice for choice in plan.choices if choice.workers == len(hosts)]
        found = next(iter(those), None)
        if found is None:
            return None
        return JobForecast(found.seconds.middle, found.seconds.low, found.seconds.high, found.system)
