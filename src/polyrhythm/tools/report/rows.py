"""The cells of a comparison, for the terminal's table and for the page's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.kernel.events import CrewChanged, Restarted
from polyrhythm.core.records.metrics import Target, metrics_of, show_metric
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.units import show_bytes, show_seconds, show_window
from polyrhythm.tools.report.filled import only_filled
from polyrhythm.tools.report.repeats import Repeats, repeats_of
from polyrhythm.tools.report.series import Series, crowds, is_virtual

_SHOWN_METRICS = 2
_SHORT = 200
_NAMES = 8


@dataclass(frozen=True, slots=True)
class Sheet:
    """Column titles, one row of cells for each system (the label first), and a remark for each that failed or lost workers."""

    columns: list[str]
    rows: list[list[str]]
    order: list[Series]
    remarks: list[str]


def sheet(group: Sequence[Series], target: Target | None) -> Sheet:
    """The cells of runs in one runtime: soonest to the target first, or soonest to end; those that failed last.

    Runs that differ in their seed alone are one row of medians, each with the least and the greatest value where they differ. Columns in
    which no run has anything are left out.
    """
    metrics = metrics_of(one.outcome for one in group)[:_SHOWN_METRICS]
    mixed = len(crowds(group)) > 1
    # What decides stands first: on a phone the rest is a swipe away.
    columns = ["system", *(["workers"] if mixed else []), *([f"to {target}"] if target is not None else [])]
    columns += ["virtual time" if is_virtual(group[0].outcome) else "time", "bytes sent", *metrics, "messages", "steps", "samples"]
    order = sorted(repeats_of(group), key=lambda one: _rank(one, target))
    columns, rows = only_filled(columns, [_cells(one, metrics, mixed, target) for one in order])
    return Sheet(columns, rows, [one.first for one in order], [text for one in order for run in one.runs for text in _remarks(run)])


def _rank(one: Repeats, target: Target | None) -> tuple[bool, bool, float, float]:
    time = one.of(lambda outcome: outcome.time).median
    if target is None:
        return one.failed, False, time, 0.0
    reached = one.to(target).median
    if math.isfinite(reached):
        return one.failed, False, reached, time
    last = one.final(target.metric)
    missing = math.inf if last is None else -last.median if target.higher_is_better else last.median
    return one.failed, True, missing, time


def _cells(one: Repeats, metrics: list[str], mixed: bool, target: Target | None) -> list[str]:
    summaries = [outcome.summary for outcome in one.known]
    measured = any(summary.seconds is not None or summary.virtual_seconds is not None for summary in summaries)
    cells = [one.label, *([str(summaries[0].workers)] if mixed else [])]
    if target is not None:
        cells.append(_to(one, target))
    cells.append(one.of(lambda outcome: outcome.time).shown(show_seconds) if measured else "failed" if one.failed else "–")
    # A run that failed before it was measured sent an unknown amount, not nothing.
    cells.append(one.of(lambda outcome: outcome.summary.bytes_sent).shown(show_bytes) if measured else "–")
    finals = [one.final(name) for name in metrics]
    cells += [show_metric(None) if final is None else final.shown(show_metric) for final in finals]
    unknown = any(summary.messages_sent is None for summary in summaries)
    counts = ["–" if unknown else one.of(_messages).shown(_whole), one.of(_steps).shown(_whole)]
    uncounted = any(summary.steps and not summary.samples for summary in summaries)  # a loop over its own batches counts none
    counts.append("–" if uncounted else one.of(lambda outcome: outcome.summary.samples).shown(_whole))
    return [*cells, *(counts if measured else ["–"] * len(counts))]


def _to(one: Repeats, target: Target) -> str:
    reached = one.reached(target)
    if len(one.runs) > 1:
        return f"{one.to(target).shown(show_seconds) if reached else 'not reached'}, {reached} of {len(one.runs)}"
    return show_window(*one.window(target)).removeprefix("after ") if reached else "not reached"


def _messages(outcome: Outcome) -> float:
    return outcome.summary.messages_sent or 0


def _steps(outcome: Outcome) -> float:
    return outcome.summary.steps


def _whole(number: float) -> str:
    return f"{number:,.0f}"


def _remarks(one: Series) -> list[str]:
    summary = one.outcome.summary
    remarks = [ending(one)] if summary.error is not None else []
    remarks += [f"{one.label}: {remark}" for remark in one.outcome.remarks]
    again = [event for event in one.outcome.events if isinstance(event, Restarted)]
    remarks += [f"{one.label} was started again after {show_seconds(event.time)}: {event.reason}." for event in again]
    changes = [event for event in one.outcome.events if isinstance(event, CrewChanged)]
    left = [name for event in changes for name in event.left if name not in summary.lost]
    joined = [name for event in changes for name in event.joined]
    crew = [f"continued without {_few(summary.lost)}"] * bool(summary.lost)
    crew += [f"{_few(names)} {what}" for names, what in ((left, "left"), (joined, "joined")) if names]
    remarks += [f"{one.label} {'; '.join(crew)}."] * bool(crew)
    if summary.row_writes and summary.lost_writes is not None:
        lost, written = summary.lost_writes, summary.row_writes
        remarks.append(f"{one.label}: {lost:,} of {written:,} writes of rows to shared weights were overwritten ({lost / written:.2%}).")
    return remarks


def _few(names: Sequence[str]) -> str:
    return f"{', '.join(names[:_NAMES])}{' …' * (len(names) > _NAMES)}"


def ending(one: Series) -> str:
    """Why a run did not end well, or that it is under way: "ssp failed: it diverged", "ssp: worker/3 failed: ...".

    The name is left out where the error already has "failed: ".
    """
    message = short_error(one.outcome.summary.error or "")
    return f"{one.label}{'' if one.unended or ' failed: ' in message else ' failed'}: {message}"


def short_error(error: str) -> str:
    """The first line of an error, cut between words where it is long."""
    line = error.strip().split("\n", 1)[0].strip() or "no reason was given."
    return line if len(line) <= _SHORT else line[:_SHORT].rsplit(" ", 1)[0] + " …"
