"""Metrics of runs: the primary one of a comparison, the direction that is better, and the moment at which a target was reached.

Reports, the command line and the planner ask here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polyrhythm.core.kernel.events import Evaluated, Reported
from polyrhythm.core.records.first_worker import PresentFirst
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.errors import CompositionError, did_you_mean, nearest

_PREFERRED = ("accuracy", "bits", "loss")
_LOWER = {
    "loss", "error", "err", "bits", "bpc", "perplexity", "ppl", "entropy", "nll", "negative", "mse", "rmse", "mae", "mape",
    "distance", "divergence", "kl", "fid", "wer", "cer", "regret",
}  # fmt: skip
_HIGHER = {
    "accuracy", "acc", "correct", "precision", "recall", "f1", "auc", "iou", "map", "bleu", "rouge", "r2", "score", "reward", "return",
    "likelihood", "elbo", "psnr", "ssim", "modes",
}  # fmt: skip
_COUNTERS = {"epoch", "epochs", "step", "steps", "iteration", "iterations", "samples", "lr", "rate", "time", "seconds", "progress"}


def higher_is_better(metric: str) -> bool | None:
    """True if more is better, by words in the name: False for losses, errors, bits, distances; None if no word is known."""
    if _has_word(metric, _LOWER):
        return False
    return True if _has_word(metric, _HIGHER) else None


def _has_word(metric: str, known: set[str]) -> bool:
    """True if a known word is in the name: a short one ("mse", "f1") as a whole word, a longer one anywhere ("valloss")."""
    name = metric.lower()
    return bool(known & set(_words(name))) or any(len(word) > 3 and word in name for word in known)


def _words(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", name.lower())


def metrics_of(outcomes: Iterable[Outcome]) -> list[str]:
    """The names of all metrics: the primary one first, then losses, the others as they came, and counters (epoch, step, lr) last."""
    evaluated, others = _names(outcomes)
    first = _primary(evaluated) or _primary(others)
    return sorted([*evaluated, *others], key=lambda name: (name != first, is_counter(name), "loss" not in name.lower()))


def primary_metric(outcomes: Iterable[Outcome]) -> str | None:
    """The metric by which runs are compared: accuracy, else bits, else loss (or a name with such a word in it, of held-out data rather than
    training), else the first whose name shows which way is better, else the first that is no counter; None without any. Evaluated metrics
    come before reported ones.
    """
    evaluated, others = _names(outcomes)
    return _primary(evaluated) or _primary(others)


def _names(outcomes: Iterable[Outcome]) -> tuple[list[str], list[str]]:
    """The names of metrics that were evaluated, and of those that were only reported."""
    evaluated: dict[str, None] = {}
    others: dict[str, None] = {}
    for outcome in outcomes:
        for event in _measured(outcome):
            (evaluated if isinstance(event, Evaluated) else others).update(dict.fromkeys(event.metrics))
        others |= dict.fromkeys(outcome.summary.final)
    return list(evaluated), [name for name in others if name not in evaluated]


def _primary(names: list[str]) -> str | None:
    candidates = sorted((name for name in names if not is_counter(name)), key=lambda name: "train" in name.lower())
    for word in _PREFERRED:
        found = [name for name in candidates if name == word] or [name for name in candidates if word in name.lower()]
        if found:
            return found[0]
    return next((name for name in candidates if higher_is_better(name) is not None), candidates[0] if candidates else None)


def is_counter(name: str) -> bool:
    """True if the metric only counts the progress of the training, such as epoch, step or lr."""
    return not _COUNTERS.isdisjoint(_words(name))


Measured = Evaluated | Reported
"""An event with metrics at one time."""


def curve_of(outcome: Outcome, metric: str) -> Sequence[Measured]:
    """The run's one curve of `metric`: the evaluations of its result, or, where there are none, what the first worker reported."""
    named = [event for event in _measured(outcome) if metric in event.metrics]
    return [event for event in named if isinstance(event, Evaluated)] or named


def _measured(outcome: Outcome) -> list[Measured]:
    first = PresentFirst()
    seen = ((event, first.sees(event)) for event in outcome.events)
    return [event for event, own in seen if isinstance(event, Evaluated) or (own and isinstance(event, Reported))]


def show_metric(value: float | None) -> str:
    """A metric's value as readable text."""
    return "–" if value is None else f"{value:.4g}"


def not_yet(measured: Measured) -> float:
    """The latest time known to be before the measured state was reached; for a report, that is its own time."""
    return measured.since if isinstance(measured, Evaluated) else measured.time


@dataclass(frozen=True, slots=True)
class Target:
    """A value of a metric that a run is to reach; `higher` says if more is better, where the name does not show it."""

    metric: str
    value: float
    higher: bool | None = None

    def __str__(self) -> str:
        return f"{self.metric} {self.value:g}"

    @property
    def higher_is_better(self) -> bool:
        """True if more is better, as given by `higher`, or by the metric's name."""
        return higher_is_better(self.metric) is not False if self.higher is None else self.higher

    def met_by(self, value: float) -> bool:
        """True if `value` is as good as the target or better."""
        return value >= self.value if self.higher_is_better else value <= self.value

    def best(self, values: Iterable[float]) -> float:
        """The best of `values`."""
        return max(values) if self.higher_is_better else min(values)

    def first_reached(self, outcome: Outcome) -> Measured | None:
        """The first measurement that reaches the target."""
        return next((event for event in curve_of(outcome, self.metric) if self.met_by(event.metrics[self.metric])), None)


_TARGET = re.compile(r"\s*(.*?\S)\s*(>=|<=|=)\s*(\S+)\s*")


def parse_target(text: str) -> Target:
    """The target that "accuracy=0.96", "reward>=200" or "gap<=0.1" names.

    Raises CompositionError for anything else, and for = where the name does not show which way is better.
    """
    found = _TARGET.fullmatch(text)
    try:
        value = float(found[3]) if found else math.nan
    except ValueError:
        value = math.nan
    if found is None or not math.isfinite(value):
        raise CompositionError(f"{text!r} is not a target: write a metric and a number, for example accuracy=0.96 or 'gap<=0.1'.")
    metric, sign = found[1], found[2]
    known = higher_is_better(metric)
    if sign == "=" and known is None:
        near = nearest(metric, _LOWER | _HIGHER)
        hint = f"{did_you_mean(near)} If not, " if near else ""
        raise CompositionError(
            f"{text!r}: the name {metric!r} does not show whether higher or lower is better. {hint}{'w' if near else 'W'}rite "
            f"'{metric}>={found[3]}' or '{metric}<={found[3]}', in quotes."
        )
    return Target(metric, value) if sign == "=" or known is (sign == ">=") else Target(metric, value, higher=sign == ">=")
