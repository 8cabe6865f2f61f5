"""What a program of torch.distributed communicated: the number, bytes and time of its collectives, by mesh axis and by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from polyrhythm.core.kernel.events import Communicated, Stepped
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.tools.report.run_table import RunTable
from polyrhythm.tools.report.series import Series

Key = tuple[str, ...]


@dataclass(slots=True)
class Communication:
    """The communication of one kind: collectives of all ranks, the bytes that they sent, and the seconds for which programs waited."""

    calls: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    waited: float = 0.0


def by_axis(event: Communicated) -> Key:
    """The mesh axis, and the kind of collective."""
    return (event.axis or "–", event.what.split(" ")[0])


def by_line(event: Communicated) -> Key:
    """Also the line of the program."""
    return (*by_axis(event), event.where)


def communication(outcome: Outcome, key: Callable[[Communicated], Key]) -> dict[Key, Communication]:
    """The communication of a run by `key`, what was waited for longest first."""
    found: dict[Key, Communication] = {}
    for event in outcome.events:
        if isinstance(event, Communicated):
            one = found.setdefault(key(event), Communication())
            one.calls += 1
            one.nbytes += event.nbytes
            one.seconds += event.seconds
            one.waited += event.waited
    return dict(sorted(found.items(), key=lambda item: (-item[1].waited, -item[1].nbytes, item[0])))


def communication_tables(group: Sequence[Series], most: int) -> list[RunTable]:
    """A table for each run that has collectives, with at most so many lines."""
    return [table for one in group if (table := communication_table(one, most)).rows]


def communication_table(series: Series, most: int) -> RunTable:
    """The table of one run: for each line and rank, what is waited for longest first."""
    found = communication(series.outcome, by_line)
    ranks = max(1, series.outcome.summary.workers)
    rows = [
        [axis, what, where, f"{one.calls / ranks:.3g}", show_bytes(one.nbytes / ranks), *map(show_seconds, _of_rank(one, ranks))]
        for (axis, what, where), one in list(found.items())[:most]
    ]
    left = len(found) - len(rows)
    columns = ["mesh axis", "collective", "line", "calls", "bytes sent", "under way", "waited"]
    return RunTable(series, columns, rows, f"and {left} more lines" if left else "")


@dataclass(frozen=True, slots=True)
class StepsByAxis:
    """What a step of a rank takes in several runs, and communicates on each mesh axis."""

    columns: list[str]
    rows: list[list[str]]


def steps_by_axis(group: Sequence[Series]) -> StepsByAxis:
    """A row for each run that has collectives: the time between steps, and bytes and waits for one step, by axis."""
    found = {one.label: (one, communication(one.outcome, lambda event: (event.axis or "–",))) for one in group}
    known = {label: (one, axes) for label, (one, axes) in found.items() if axes}
    axes = list(dict.fromkeys(axis for _, by_axis in known.values() for (axis,) in by_axis))
    rows = []
    for label, (one, by_axis) in known.items():
        shares = max(1, one.outcome.summary.workers) * max(1, one.outcome.summary.steps)
        row = [label, show_seconds(_step(one.outcome))]
        for axis in axes:
            own = by_axis.get((axis,), Communication())
            row += [show_bytes(own.nbytes / shares), show_seconds(own.waited / shares)]
        rows.append(row)
    return StepsByAxis(["", "a step", *(f"{axis} {what}" for axis in axes for what in ("sends", "waits"))], rows)


def _step(outcome: Outcome) -> float:
    """The mean time between two steps of a rank; without two, the time of the run."""
    times: dict[str, list[float]] = {}
    for event in outcome.events:
        if isinstance(event, Stepped):
            times.setdefault(event.actor, []).append(event.time)
    means = [(own[-1] - own[0]) / (len(own) - 1) for own in times.values() if len(own) > 1]
    return mean(means) if means else outcome.time


def _of_rank(one: Communication, ranks: int) -> tuple[float, float]:
    return one.seconds / ranks, one.waited / ranks
