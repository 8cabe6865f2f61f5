"""The work of each worker in a run: its steps and samples, and the parts of its time for which it computed and waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.kernel.events import Computed, Stepped, Waited
from polyrhythm.core.kernel.names import is_worker, rank_of
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.units import show_seconds
from polyrhythm.tools.report.run_table import RunTable
from polyrhythm.tools.report.series import Series

_COLUMNS = ["worker", "computing", "waiting", "per second", "steps", "samples", "last step"]
"""A narrow screen shows the first ones."""


@dataclass(slots=True)
class WorkerTotals:
    """The totals of one worker until its last step, or to the end where it took none: a worker that ended early does not wait for the
    others.

    `samples` are those that its steps have used, 0 where none were counted; `last` is when the last step ended.
    """

    steps: int = 0
    samples: int = 0
    last: float = 0.0
    computed: float = 0.0
    waited: float = 0.0


def totals(outcome: Outcome) -> dict[str, WorkerTotals]:
    """The workers that took a step or were waited for, by rank."""
    found: dict[str, WorkerTotals] = {}
    for event in outcome.events:
        if is_worker(event.actor) and isinstance(event, Stepped):
            one = found.setdefault(event.actor, WorkerTotals())
            one.steps, one.samples, one.last = event.clock, event.samples, event.time
    for event in outcome.events:
        if not is_worker(event.actor) or not isinstance(event, (Computed, Waited)):
            continue
        one = found.setdefault(event.actor, WorkerTotals())
        seconds = max(0.0, event.seconds - max(0.0, event.time - one.last)) if one.steps else event.seconds
        if isinstance(event, Computed):
            one.computed += seconds
        else:
            one.waited += seconds
    return dict(sorted(found.items(), key=lambda item: rank_of(item[0])))


def each_worker(group: Sequence[Series], most: int) -> list[RunTable]:
    """A table for each system that ran with several workers, of its first run; at most `most` workers, those of the lowest ranks."""
    tables: dict[str, RunTable] = {}
    for one in group:
        if one.name not in tables and one.outcome.time and len(found := totals(one.outcome)) > 1:
            rows = [_cells(name, worker, one.outcome.time) for name, worker in list(found.items())[:most]]
            remark = "" if len(found) <= most else f"The other {len(found) - most} of {len(found)} workers are not shown."
            tables[one.name] = RunTable(one, _COLUMNS, rows, remark)
    return list(tables.values())


def _cells(name: str, worker: WorkerTotals, seconds: float) -> list[str]:
    rate, ended = "–", "–"  # of one that took no step
    if worker.last > 0:
        rate = f"{worker.samples / worker.last:,.1f} samples" if worker.samples else f"{worker.steps / worker.last:,.1f} steps"
        seconds, ended = worker.last, show_seconds(worker.last)
    samples = f"{worker.samples:,}" if worker.samples else "–"
    parts = [f"{worker.computed / seconds:.0%}", f"{worker.waited / seconds:.0%}"]
    return [name, *parts, rate, f"{worker.steps:,}", samples, ended]
