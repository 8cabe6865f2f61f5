"""Forecasts of training jobs: trained once for each number of workers, and timed on each set of hosts, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyrhythm.cluster import Cluster, ClusterJob, WorkerSlot
from polyrhythm.cluster.predicted import Forecast
from polyrhythm.core.records.metrics import parse_target
from polyrhythm.errors import WorkloadError
from polyrhythm.hardware import devices
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.measure_cache import MeasureCache
from polyrhythm.tools.planner.measured import TrainedRun
from polyrhythm.tools.planner.objective import Objective
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.planner.tasks import TrainingTask
from polyrhythm.workloads.load import load_workload

DEFAULT_SYSTEMS = ("allreduce", "diloco")
"""The systems that a job may be trained with where it names none: one that exchanges in every step, and one that seldom does."""
ALONE = "single"
"""The system of one worker."""
REFERENCE = Network.uniform("reference", "10 Gbit/s", "50 us")
"""The network on which jobs are trained to count samples."""
_FIRST = 64
"""Steps of a first try to reach the target; the next have four times as many."""


@dataclass(frozen=True, slots=True)
class TrainingGoal:
    """What is trained: a JOB as `polyrhythm run` takes it, with `settings`, to `target`, such as "accuracy=0.95", with one of `systems`."""

    job: str
    target: str
    settings: tuple[tuple[str, Any], ...] = ()
    systems: tuple[str, ...] = DEFAULT_SYSTEMS


@dataclass(frozen=True, slots=True)
class TrainingForecaster:
    """A `Forecaster` of jobs with `goals`, by runs with real gradients in virtual time, as the planner makes them.

    For each system and number of workers the job is trained to its target once, on equal machines, at most `steps` steps: that gives the
    samples it takes. On each set of machines and sites a run of `timed` steps gives the seconds of a sample. Where workers have different
    speeds, systems that do not wait need other samples than on equal machines: their forecasts are less exact. Workers of one host talk
    over the network of their site. `cache` is a directory that keeps all runs.
    """

    goals: Mapping[str, TrainingGoal] = field(default_factory=dict)
    seed: int = 0
    steps: int = 2000
    timed: int = 48
    cache: Path | None = None
    _runs: MeasureCache = field(init=False, repr=False, compare=False)
    _forecasts: dict[object, Forecast | None] = field(init=False, repr=False, compare=False, default_factory=dict)
    _errors: dict[tuple[TrainingGoal, Candidate], str] = field(init=False, repr=False, compare=False, default_factory=dict)
    _machines: dict[str, devices.Machine] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_runs", MeasureCache(self.cache))

    def forecast(self, job: ClusterJob, slots: Sequence[WorkerSlot], cluster: Cluster) -> Forecast | None:
        """The system that reaches the target soonest on these hosts, and when. Raises WorkloadError where all of them fail."""
        goal = self.goals.get(job.name)
        if goal is None:
            return None
        systems = goal.systems if len(slots) > 1 else (ALONE,)
        found = [each for system in systems if (each := self.of(goal, system, slots, cluster)) is not None]
        failed = [self._errors.get((goal, Candidate(system, len(slots)))) for system in systems]
        if all(failed):
            raise WorkloadError(f"The job {job.name!r} cannot be trained with {len(slots)} workers: {failed[0]}")
        return min(found, key=lambda each: each.seconds, default=None)

    def of(self, goal: TrainingGoal, system: str, slots: Sequence[WorkerSlot], cluster: Cluster) -> Forecast | None:
        """The forecast with one system; None where that does not reach the target. One worker trains alone, whatever the system."""
        system = ALONE if len(slots) == 1 else system
        fleet, network = self.machines(slots, cluster)
        key = (goal.job, goal.settings, goal.target, system, fleet, network)
        if key not in self._forecasts:
            self._forecasts[key] = self._predicted(goal, Candidate(system, len(slots)), fleet, network)
        return self._forecasts[key]

    def machines(self, slots: Sequence[WorkerSlot], cluster: Cluster) -> tuple[Fleet, Network]:
        """The machines and the network of workers on these slots."""
        hosts = [slot.host for slot in slots]
        return Fleet(tuple(self._machine(cluster.host(name).machine) for name in hosts)), cluster.network_of(hosts)

    def trained(self, goal: TrainingGoal, candidate: Candidate, fleet: Fleet, network: Network, steps: int) -> TrainedRun:
        """A run of so many steps of each worker at most, from the cache if it is there."""
        scenario = self._scenario(goal, fleet, network)
        key = scenario.key(candidate, "forecast", steps)
        found = self._runs.get(key, TrainedRun)
        if found is None:
            task = TrainingTask(scenario, candidate, Objective("time"), self.seed, steps)
            found = TrainedRun.of(task.attempt(None), scenario.target, steps, scenario.batch or 1, candidate.strategy.chooses)
            self._runs.put(key, found)
        return found

    def whole(self, goal: TrainingGoal, candidate: Candidate) -> TrainedRun | None:
        """The run on equal machines that meets the target, or fails; None if it does neither in all steps."""
        equal = Fleet((devices.DEVICES["cpu-core"],))
        lengths = sorted({min(length, self.steps) for length in (_FIRST, 4 * _FIRST, 16 * _FIRST, self.steps)})
        return next((run for length in lengths if (run := self.trained(goal, candidate, equal, REFERENCE, length)).end or run.error), None)

    def _predicted(self, goal: TrainingGoal, candidate: Candidate, fleet: Fleet, network: Network) -> Forecast | None:
        whole = self.whole(goal, candidate)
        if whole is not None and whole.error:
            self._errors[goal, candidate] = whole.error
        if whole is None or whole.end is None:
            return None
        timed = self.trained(goal, candidate, fleet, network, self.timed)
        seconds = timed.cost_of(whole.end.samples, Objective("time"), candidate.workers)
        return None if timed.error or seconds == math.inf else Forecast(seconds, candidate.system)

    def _scenario(self, goal: TrainingGoal, fleet: Fleet, network: Network) -> Scenario:
        settings: Mapping[str, Any] = dict(goal.settings)
        train = load_workload(goal.job)  # the scenario gives it its settings
        return Scenario(goal.job, train, parse_target(goal.target), network, fleet, self.seed, facts=_facts(goal), settings=settings)

    def _machine(self, name: str) -> devices.Machine:
        if name not in self._machines:
            self._machines[name] = devices.load(name)
        return self._machines[name]


def _facts(goal: TrainingGoal) -> dict[str, str]:
    """What the outcome of a run depends on beside its names: the text of the job's file."""
    file = Path(goal.job.partition(":")[0])
    return {"file": file.read_text(encoding="utf-8")} if file.suffix == ".py" and file.exists() else {}
