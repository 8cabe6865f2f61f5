"""The measuring tool of a reproduction: runs of one seed, each of which is kept with all that an honest report says of it. `conduct` makes
an `ArmTrial` for each seed, and passes it to `measure` and `tune`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.records.metrics import Target, curve_of, higher_is_better
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.simulator.simulator import Simulator
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import attempt
from polyrhythm.errors import DivergedError, RunError
from polyrhythm.systems import resolve
from polyrhythm.workloads.workload import Workload
from polyrhythm_reproductions.arm import Arm, ArmPoint

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Result:
    """A run that has ended, or diverged: its metrics then have their worst value, and seconds and bytes are not a number.

    They are those until it broke off, which would be an advantage.
    """

    outcome: Outcome
    arm: Arm

    @property
    def final(self) -> float:
        """The workload's metric on held-out data, of the final weights."""
        return self.arm.final

    @property
    def seconds(self) -> float:
        """Seconds that the run took, virtual or real."""
        return math.nan if self.arm.diverged else self.outcome.time

    @property
    def nbytes(self) -> float:
        """Bytes that all actors sent."""
        return math.nan if self.arm.diverged else float(self.arm.bytes_sent)

    def metric(self, name: str) -> float:
        """Another metric of the final weights, on held-out data."""
        return _worst(name) if self.arm.diverged else self.outcome.summary.final[name]

    def seconds_to(self, target: Target) -> float:
        """Seconds until the target was reached; infinite where it was not."""
        found = target.first_reached(self.outcome)
        return math.inf if found is None else found.time

    def steps_to(self, target: Target) -> float:
        """Steps of a worker until the target was reached; infinite where it was not."""
        found = target.first_reached(self.outcome)
        return math.inf if found is None else float(found.clock)


@dataclass(slots=True)
class ArmTrial:
    """The runs of one `seed`. `quick` asks for less of everything; `tuned` is what the reproduction's `tune` has returned.

    `tuning` while settings are chosen: runs then count as tuning runs of their arm.
    """

    seed: int
    quick: bool = False
    tuned: Mapping[str, float] = field(default_factory=dict)
    tuning: bool = False
    tuning_runs: dict[str, int] = field(default_factory=dict)
    arms: list[Arm] = field(default_factory=list)

    def size(self, full: Value, quick: Value) -> Value:
        """`full`, or `quick` where less is asked for."""
        return quick if self.quick else full

    def train(self, arm: str, job: Workload, strategy: Strategy | str = "single", workers: int = 1, on: Runtime | None = None) -> Result:
        """Train `job`, by default in virtual time on `lan`; a run that diverges has the worst final value.

        Raises PolyrhythmErrors for runs that fail otherwise, or cannot be started.
        """
        runtime = Simulator(seed=self.seed) if on is None else on
        chosen = resolve(strategy)
        tried = attempt(job, workers=workers, strategy=chosen, on=runtime, seed=self.seed)
        if tried.error is not None and not _diverged(tried.error):
            raise tried.error
        outcome = tried.outcome
        kept = _arm(arm, job, outcome, tried.error is not None, self.seed)
        kept.tuning_runs = self.tuning_runs.get(arm, 0)
        if self.tuning:
            self.tuning_runs[arm] = kept.tuning_runs + 1
        else:
            self.arms.append(kept)
        return Result(outcome, kept)

    def best(self, results: Mapping[float, Result]) -> float:
        """The setting whose run ended best; of equals the first."""
        higher = higher_is_better(next(iter(results.values())).arm.metric) is not False
        return (max if higher else min)(results, key=lambda setting: results[setting].final)


def _worst(metric: str) -> float:
    return math.inf if higher_is_better(metric) is False else 0.0


def _diverged(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, DivergedError):
            return True
        error = error.__cause__ if isinstance(error, RunError) else None
    return False


def _arm(name: str, job: Workload, outcome: Outcome, diverged: bool, seed: int) -> Arm:
    summary, metric, sizes = outcome.summary, job.metric, job.sizes
    final = summary.final.get(metric.name, _worst(metric.name))
    emulated = summary.on == "simulator"
    settings = "; ".join([repr(job), outcome.settings["strategy"], f"{summary.workers} workers", outcome.settings["runtime"]])
    config = _hash([settings])
    curve = [ArmPoint(event.clock, event.time, event.metrics[metric.name]) for event in curve_of(outcome, metric.name)]
    return Arm(
        name=name,
        run=_hash([name, settings, str(seed)]),
        seed=seed,
        settings=settings,
        config=config,
        metric=metric.name,
        split="held-out",
        final=_worst(metric.name) if diverged else final,
        curve=curve,
        workers=summary.workers,
        batch=sizes.batch,
        global_batch=sizes.batch * summary.workers,
        dataset=sizes.training,
        data=sizes.origin,
        data_wait="none: batches are views of tensors in memory" if emulated else "part of the seconds",
        samples=summary.samples,
        steps=summary.steps,
        seconds=outcome.time,
        emulated=emulated,
        hardware=outcome.settings["runtime"],
        bytes_sent=summary.bytes_sent,
        diverged=diverged,
        weights_sha256=summary.weights_sha256,
    )


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
