"""Which of the reported metrics a comparison is about, which way is better, and when a target was reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polyrhythm.errors import CompositionError
from polyrhythm.kernel.events import Evaluated, Reported
from polyrhythm.kernel.port import worker
from polyrhythm.report.outcome import Outcome

_PREFERRED = ("accuracy", "bits", "loss")
_LOWER_IS_BETTER = ("loss", "error", "bits", "perplexity")


def higher_is_better(metric: str) -> bool:
    """Whether more is better: not for names with loss, error, bits or perplexity in them, for all others yes."""
    return not any(word in metric.lower() for word in _LOWER_IS_BETTER)


def metrics_of(outcomes: Iterable[Outcome]) -> list[str]:
    """The names of all metrics, the primary one first, then loss, then the others as they came."""
    names: dict[str, None] = {}
    for outcome in outcomes:
        for report in reports_of(outcome):
            names |= dict.fromkeys(report.metrics)
        names |= dict.fromkeys(outcome.summary.final)
    first = _primary(list(names))
    return sorted(names, key=lambda name: (name != first, "loss" not in name.lower()))


def primary_metric(outcomes: Iterable[Outcome]) -> str | None:
    """What runs are judged by: accuracy, else bits, else loss (or a name with such a word in it), else the first; None without any."""
    return next(iter(metrics_of(outcomes)), None)


def _primary(names: list[str]) -> str | None:
    for word in _PREFERRED:
        found = [name for name in names if name == word] or [name for name in names if word in name.lower()]
        if found:
            return found[0]
    return names[0] if names else None


Measured = Evaluated | Reported
"""Metrics at a moment."""


def reports_of(outcome: Outcome) -> Sequence[Measured]:
    """The run's one curve, in order: the evaluations of its result, or, where it has none, what worker 0 reported."""
    evaluated = [event for event in outcome.events if isinstance(event, Evaluated)]
    first = worker(0)
    return evaluated or [event for event in outcome.events if isinstance(event, Reported) and event.actor == first]


def better(metric: str, values: Iterable[float]) -> float:
    """The best of `values`."""
    return max(values) if higher_is_better(metric) else min(values)


def show_metric(value: float | None) -> str:
    """A metric's value as a person reads it."""
    return "–" if value is None else f"{value:.4g}"


def not_yet(measured: Measured) -> float:
    """The latest moment known to be before what was measured came about: a report tells of its own moment alone."""
    return measured.since if isinstance(measured, Evaluated) else measured.time


@dataclass(frozen=True, slots=True)
class Target:
    """A value of a metric that a run is to reach."""

    metric: str
    value: float

    def __str__(self) -> str:
        return f"{self.metric} {self.value:g}"

    def met_by(self, value: float) -> bool:
        """Whether `value` is as good as the target."""
        return value >= self.value if higher_is_better(self.metric) else value <= self.value

    def first_reached(self, outcome: Outcome) -> Measured | None:
        """The first measurement that reaches the target."""
        return next(
            (report for report in reports_of(outcome) if self.metric in report.metrics and self.met_by(report.metrics[self.metric])), None
        )


def parse_target(text: str) -> Target:
    """The target that "accuracy=0.96" names. Raises CompositionError for anything else."""
    metric, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not metric.strip() or not math.isfinite(value):
        raise CompositionError(f"{text!r} is not a target: write a metric and a number, for example accuracy=0.96.")
    return Target(metric.strip(), value)
