"""A proxy plan in words, for the terminal and for the page alike."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from polyrhythm.core.units import show_bytes, show_ratio, show_seconds
from polyrhythm.tools.planner.candidate import show
from polyrhythm.tools.planner.certainty import probable
from polyrhythm.tools.planner.forecast import Interval
from polyrhythm.tools.planner.proxy.proxy_plan import ProxyChoice, ProxyPlan
from polyrhythm.tools.planner.words import between
from polyrhythm.tools.scaling.power_law import LEAST_SIZES

CHOICE_COLUMNS = ("", "to the target", "between", "fastest", "samples", "over one machine", "exponent", "bytes")
SIZE_COLUMNS = ("size", "parameters", "rate", "alone", "seeds")
ORIGIN_COLUMNS = ("figure", "", "how")
_SURE = 0.9
_OFF = 0.25
"""A law that misses the largest proxy by more is said not to hold."""


def choice_rows(plan: ProxyPlan) -> list[list[str]]:
    """A row for each method, the fastest first."""
    return [
        [
            named(each),
            show_seconds(each.seconds.middle),
            between(each.seconds),
            probable(each.first),
            f"{each.samples.middle:,.0f}",
            f"× {_spread(each.penalty)}",
            f"{each.penalty_exponent.middle:+.2f} ({each.penalty_exponent.low:+.2f} to {each.penalty_exponent.high:+.2f})",
            show_bytes(each.nbytes.middle),
        ]
        for each in plan.choices
    ]


def size_rows(plan: ProxyPlan) -> list[list[str]]:
    """A row for each size, and one for the true model: what one machine alone needed, or would need."""
    rows = []
    for size in plan.sizes:
        own = [point for point in plan.points if point.parameters == size.parameters and point.method == "single × 1"]
        reached = [point.samples for point in own if point.samples is not None]
        mean = f"{fmean(reached):,.0f} samples" if reached else "not reached"
        rows.append([_settings(size.settings), f"{size.parameters:,}", _rate(size.rate), mean, f"{len(reached)} of {len(own)}"])
    alone = next((each for each in plan.choices if each.workers == 1), None)
    derived = "" if alone is None else f"{alone.samples.middle:,.0f} samples, derived"
    return [*rows, [_settings(plan.true), f"{plan.parameters:,}", _rate(plan.rate), derived, "not trained"]]


def origin_rows(plan: ProxyPlan) -> list[list[str]]:
    """A row for each figure."""
    return [[each.figure, each.kind, each.how] for each in plan.origins]


def named(choice: ProxyChoice) -> str:
    """The name of a choice in tables."""
    return "one machine alone" if choice.workers == 1 else choice.name


def proxy_sentences(plan: ProxyPlan) -> list[str]:
    """The answer, and how far it is to be believed."""
    size = f"{plan.parameters / 1e6:,.3g} million parameters" if plan.parameters >= 1e6 else f"{plan.parameters:,} parameters"
    best = plan.best
    if best is None:
        return [plan.obstacle, *plan.remarks]
    found = [
        f"{named(best).capitalize() if best.workers == 1 else named(best)} should bring the model of {size} to {plan.target} first, in "
        f"{show_seconds(best.seconds.middle)} ({between(best.seconds)}). It is the fastest with a probability of {probable(best.first)}"
        f"{_second(plan, best)}. The model was not trained: smaller ones were, {_sizes(plan)}."
    ]
    return [*found, *plan.remarks, *_doubts(plan)]


def _second(plan: ProxyPlan, best: ProxyChoice) -> str:
    if len(plan.choices) < 2:
        return ""
    second = plan.choices[1]
    ratio = second.seconds.middle / best.seconds.middle if best.seconds.middle else 1.0
    return f"; {named(second)} takes {show_ratio(ratio)}, and is the fastest with {probable(second.first)}"


def _sizes(plan: ProxyPlan) -> str:
    least, most = plan.sizes[0].parameters, plan.sizes[-1].parameters
    return f"of {least:,} to {most:,} parameters, {plan.parameters / most:,.3g} times fewer than it has"


def _doubts(plan: ProxyPlan) -> list[str]:
    """Reasons to doubt the laws, and the order."""
    law, found = plan.law, []
    if law is not None and law.largest_from_others is not None:
        off = law.largest_from_others - 1
        text = f"A law through the other sizes predicts the largest one's samples to {off:+.0%}"
        found.append(f"{text}: it does not hold there, and is not to be trusted farther." if abs(off) > _OFF else f"{text}.")
    if few := [named(each) for each in plan.choices if each.workers > 1 and each.sizes < LEAST_SIZES]:
        found.append(
            f"There was time for fewer than {LEAST_SIZES} sizes of {', '.join(few)}: that what they need over one machine alone hardly "
            "changes with the size is assumed. Give a longer --budget."
        )
    if plan.best is not None and plan.best.first < _SURE and len(plan.choices) > 1:
        found.append("The order of the first is not sure: a longer --budget, larger proxies or more --seeds would tell them apart.")
    return found


def _settings(settings: dict[str, object]) -> str:
    return ", ".join(f"{key}={show(value)}" for key, value in settings.items())


def _rate(rate: float | None) -> str:
    return "–" if rate is None else f"{rate:.3g}"


def _spread(interval: Interval) -> str:
    return f"{interval.middle:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def refused_lines(plan: ProxyPlan) -> Sequence[str]:
    """The methods that were left out, and why."""
    return [f"{name}: {reason}" for name, reason in plan.refused.items()]
