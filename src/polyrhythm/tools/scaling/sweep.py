"""Trains families of jobs at several sizes, and fits a power law to each: loss against parameters, and against operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import msgspec

from polyrhythm.core.kernel.events import Computed
from polyrhythm.core.records.metrics import Target, primary_metric
from polyrhythm.core.records.outcome import Outcome, versions
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import attempt
from polyrhythm.errors import CompositionError, unknown
from polyrhythm.hardware.devices import Device
from polyrhythm.systems import find
from polyrhythm.tools.scaling.power_law import LEAST_SIZES, PowerLaw, fit_power_law
from polyrhythm.workloads.load import load_workload

AGAINST = ("parameters", "operations")
SAMPLES = "samples to the target"


@dataclass(frozen=True, slots=True)
class ScalingSweep:
    """What is trained: jobs by their names, each with the name of its setting of size and the sizes; seeds; and what is looked at.

    `metric` is the job's first by default; `floor` is what it cannot fall below, such as the entropy of a source. With a `target` the
    samples to it are fitted too. `settings` are of all jobs.
    """

    sizes: Mapping[str, tuple[str, Sequence[Any]]]
    seeds: Sequence[int] = (0, 1, 2)
    settings: Mapping[str, Any] = field(default_factory=dict)
    metric: str | None = None
    floor: float = 0.0
    target: Target | None = None

    def check(self) -> None:
        """Raise PolyrhythmErrors for jobs and settings that do not exist, and for too few sizes."""
        for job, (key, sizes) in self.sizes.items():
            if len(set(map(str, sizes))) < LEAST_SIZES:
                raise CompositionError(f"{len(set(sizes))} sizes of {job} are too few for a power law: give {LEAST_SIZES} or more.")
            for size in sizes:
                load_workload(job, {**self.settings, key: size})


class ScalingPoint(msgspec.Struct, frozen=True):
    """One training: numbers in the model, operations of all steps, the metric at the end, and the samples to the target, if reached."""

    family: str
    size: str
    seed: int
    parameters: int
    operations: float
    value: float
    samples: float | None = None


class FamilyLaw(msgspec.Struct, frozen=True):
    """The power law of a family: `quantity` = coefficient × `against`^(-α); `why_not` says why there is none."""

    family: str
    quantity: str
    against: str
    alpha: float | None = None
    low: float | None = None
    high: float | None = None
    coefficient: float | None = None
    r_squared: float | None = None
    holds: bool = False
    why_not: str = ""


class FamilyPair(msgspec.Struct, frozen=True):
    """Two families: whether the 95 % intervals of their exponents are disjoint."""

    first: str
    second: str
    quantity: str
    against: str
    told_apart: bool


class ScalingReport(msgspec.Struct, frozen=True, kw_only=True):
    """All trainings, the laws, and which exponents are told apart."""

    metric: str
    floor: float
    seeds: list[int]
    points: list[ScalingPoint]
    laws: list[FamilyLaw]
    pairs: list[FamilyPair]
    versions: dict[str, str]


def sweep(wanted: ScalingSweep, watch: Callable[[str], None] = lambda _: None) -> ScalingReport:
    """Train all sizes of all families under every seed, at one worker, and fit. Raises what a run raises."""
    wanted.check()
    points, metric = [], wanted.metric
    for job, (key, sizes) in wanted.sizes.items():
        for size in sizes:
            for seed in wanted.seeds:
                watch(f"{job}: {key} {size}, seed {seed}")
                outcome = _trained(job, {**wanted.settings, key: size}, seed)
                metric = metric or primary_metric([outcome])
                points.append(_point(outcome, (job, str(size), seed), metric, wanted.target))
    return report_of(points, metric or "", wanted)


def report_of(points: Sequence[ScalingPoint], metric: str, wanted: ScalingSweep) -> ScalingReport:
    """The laws through `points`."""
    quantities = [metric, *([SAMPLES] if wanted.target is not None else [])]
    laws, pairs = [], []
    for quantity in quantities:
        for against in AGAINST:
            made = {job: _law(points, job, quantity, against, wanted.floor if quantity == metric else 0.0) for job in wanted.sizes}
            laws += [_family(job, quantity, against, law) for job, law in made.items()]
            fits = {job: law for job, law in made.items() if not isinstance(law, str)}
            pairs += [FamilyPair(a, b, quantity, against, fits[a].told_apart(fits[b])) for a, b in combinations(fits, 2)]
    return ScalingReport(
        metric=metric, floor=wanted.floor, seeds=list(wanted.seeds), points=list(points), laws=laws, pairs=pairs, versions=versions()
    )


def _trained(job: str, settings: Mapping[str, Any], seed: int) -> Outcome:
    on = Simulator(network=Instant(), devices=Device("one operation a second", 1.0), seed=seed)
    return attempt(load_workload(job, settings), workers=1, strategy=find("single"), on=on, seed=seed).completed()


def _point(outcome: Outcome, named: tuple[str, str, int], metric: str | None, target: Target | None) -> ScalingPoint:
    final = outcome.summary.final
    if metric is None or metric not in final:
        raise unknown("metric that is reported", metric or "", final)
    reached = None if target is None else target.first_reached(outcome)
    each = outcome.summary.samples / max(1, outcome.summary.steps)
    parameters = sum(tensor.numel() for tensor in outcome.weights.values() if tensor.is_floating_point())
    operations = sum(event.seconds for event in outcome.events if isinstance(event, Computed))  # at one operation a second
    return ScalingPoint(*named, parameters, operations, final[metric], None if reached is None else reached.clock * each)


def _law(points: Sequence[ScalingPoint], job: str, quantity: str, against: str, floor: float) -> PowerLaw | str:
    """The law of a family, or why there is none."""
    measured: dict[float, list[float]] = {}
    for point in points:
        if point.family == job:
            value = point.samples if quantity == SAMPLES else point.value
            if value is None:
                return f"size {point.size} did not reach the target with seed {point.seed}"
            measured.setdefault(float(getattr(point, against)), []).append(value)
    try:
        return fit_power_law(measured, floor)
    except CompositionError as problem:
        return str(problem)


def _family(job: str, quantity: str, against: str, law: PowerLaw | str) -> FamilyLaw:
    if isinstance(law, str):
        return FamilyLaw(job, quantity, against, why_not=law)
    return FamilyLaw(job, quantity, against, law.alpha, law.low, law.high, law.coefficient, law.r_squared, law.holds)
