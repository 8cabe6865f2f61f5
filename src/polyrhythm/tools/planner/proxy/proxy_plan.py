"""A proxy plan: the answer about a model that was not trained, as data, with where each figure comes from."""

from __future__ import annotations

from typing import Any

import msgspec

from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.systems import find
from polyrhythm.tools.planner.forecast import Interval


class ProxySize(msgspec.Struct, frozen=True):
    """A size of the family: its settings, its parameters, and the learning rate with which it trains, None where the JOB has no such
    setting."""

    settings: dict[str, Any]
    parameters: int
    rate: float | None


class ProxyPoint(msgspec.Struct, frozen=True):
    """One training of a method at a size: the samples of all workers to the target, None where it did not come there."""

    method: str
    parameters: int
    seed: int
    rate: float | None
    samples: float | None


class ProxyChoice(msgspec.Struct, frozen=True):
    """One way of training the true model, and what is predicted of it; in each interval nine of ten runs should lie.

    `penalty` is the samples that it needs over those of one machine alone, and `penalty_exponent` with what power of the parameters that
    changes, with its 95 % interval. `first` is the probability that it is the fastest of all, `sizes` the number of sizes at which it was
    trained, and `timed` how its seconds per sample were found.
    """

    name: str
    system: str
    workers: int
    options: dict[str, Any]
    settings: dict[str, Any]
    seconds: Interval
    samples: Interval
    nbytes: Interval
    penalty: Interval
    penalty_exponent: Interval
    seconds_per_sample: float
    first: float
    sizes: int
    timed: str
    command: str
    code: str
    rehearsal: str

    @property
    def strategy(self) -> Strategy:
        """The strategy to give to `run`."""
        return find(self.system, **self.options)


class FigureOrigin(msgspec.Struct, frozen=True):
    """Where a figure comes from: `kind` is "measured", "derived" or "assumed", `how` says it in words."""

    figure: str
    kind: str
    how: str


class SampleLawFound(msgspec.Struct, frozen=True):
    """Samples of one machine alone = `least` + `coefficient` × N^(-`exponent`), with 95 % intervals.

    `largest_from_others` is the samples of the largest size as a law through the others predicts it, over those that it needed.
    """

    least: Interval
    exponent: Interval
    coefficient: float
    scatter: float
    largest_from_others: float | None = None


class ProxyPlan(msgspec.Struct):
    """The request and the answer: `choices`, the fastest first. `asked` is the target that was asked for, where another had to be taken.

    `parameters` and `operations` (of one step of a worker) are those of the true model. `refused` are methods and sizes that were left out,
    with the reason. `obstacle` is why nothing is predicted.
    """

    job: str
    target: str
    asked: str
    network: str
    devices: str
    true: dict[str, Any]
    parameters: int
    operations: float
    rate: float | None
    rate_exponent: float | None
    sizes: list[ProxySize]
    points: list[ProxyPoint]
    law: SampleLawFound | None
    choices: list[ProxyChoice]
    origins: list[FigureOrigin]
    remarks: list[str]
    refused: dict[str, str]
    runs: int
    kept: int
    seconds: float
    seeds: list[int]
    obstacle: str = ""

    @property
    def best(self) -> ProxyChoice | None:
        """The first choice; None where nothing can be predicted."""
        return self.choices[0] if self.choices else None
