"""The cells of a comparison, for the terminal's table and for the page's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.report.metrics import Target, higher_is_better, metrics_of, show_metric
from polyrhythm.report.series import Series, crowds, is_virtual
from polyrhythm.units import show_bytes, show_seconds

_SHOWN_METRICS = 2
_SHORT = 200


@dataclass(frozen=True, slots=True)
class Sheet:
    """Column titles, one row of cells for each run (the label first), and a remark for each that failed or lost workers."""

    columns: list[str]
    rows: list[list[str]]
    order: list[Series]
    remarks: list[str]


def sheet(group: Sequence[Series], target: Target | None) -> Sheet:
    """The cells of runs in one runtime: soonest to the target first, or soonest to end; those that failed last."""
    metrics = metrics_of(one.outcome for one in group)[:_SHOWN_METRICS]
    mixed = len(crowds(group)) > 1
    # What decides stands first: on a phone the rest is a swipe away.
    columns = ["system", *(["workers"] if mixed else []), *([f"to {target}"] if target is not None else [])]
    columns += ["virtual time" if is_virtual(group[0].outcome) else "time", *metrics, "bytes sent", "messages", "steps", "samples"]
    order = sorted(group, key=lambda one: _rank(one, target))
    return Sheet(columns, [_cells(one, metrics, mixed, target) for one in order], order, [text for one in order for text in _remarks(one)])


def _rank(one: Series, target: Target | None) -> tuple[bool, bool, float, float]:
    outcome = one.outcome
    if target is None:
        return one.failed, False, outcome.time, 0.0
    reached = target.first_reached(outcome)
    if reached is not None:
        return one.failed, False, reached.time, outcome.time
    last = outcome.summary.final.get(target.metric)
    missing = float("inf") if last is None else -last if higher_is_better(target.metric) else last
    return one.failed, True, missing, outcome.time


def _cells(one: Series, metrics: list[str], mixed: bool, target: Target | None) -> list[str]:
    summary, outcome = one.outcome.summary, one.outcome
    measured = summary.seconds is not None or summary.virtual_seconds is not None
    cells = [one.label, *([str(summary.workers)] if mixed else [])]
    if target is not None:
        reached = target.first_reached(outcome)
        cells.append("not reached" if reached is None else show_seconds(reached.time))
    cells.append(show_seconds(outcome.time) if measured else "failed" if one.failed else "–")
    cells += [show_metric(summary.final.get(name)) for name in metrics]
    samples = "–" if summary.steps and not summary.samples else f"{summary.samples:,}"  # a loop over batches of its own counts none
    counts = [show_bytes(summary.bytes_sent), f"{summary.messages_sent:,}", f"{summary.steps:,}", samples]
    # A run that failed before it was measured sent an unknown amount, not nothing.
    return [*cells, *(counts if measured else ["–"] * len(counts))]


def _remarks(one: Series) -> list[str]:
    summary = one.outcome.summary
    remarks = [ending(one)] if summary.error is not None else []
    remarks += [f"{one.label}: {remark}" for remark in one.outcome.remarks]
    if summary.lost:
        remarks.append(f"{one.label} went on without {', '.join(summary.lost[:8])}{' …' * (len(summary.lost) > 8)}.")
    return remarks


def ending(one: Series) -> str:
    """Why a run did not end well, or that it is under way: "ssp failed: it diverged", "ssp: worker/3 failed: ...".

    An error that says itself who failed is not told so twice.
    """
    said = short_error(one.outcome.summary.error or "")
    return f"{one.label}{'' if one.unended or ' failed: ' in said else ' failed'}: {said}"


def short_error(error: str) -> str:
    """The first line of an error, cut at a word where it is long."""
    line = error.strip().split("\n", 1)[0].strip() or "no reason was given."
    return line if len(line) <= _SHORT else line[:_SHORT].rsplit(" ", 1)[0] + " …"
