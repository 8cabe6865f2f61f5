"""Who computed and who waited, over the first moments of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from polyrhythm.kernel.events import Computed, Reported, Stepped, Waited
from polyrhythm.kernel.port import rank_of, worker
from polyrhythm.report.outcome import Outcome
from polyrhythm.report.series import Series

FULL = 4
_STEPS = 12
_ROWS = 8
_BINS = 200

Span = tuple[float, float]


@dataclass(slots=True)
class Row:
    """One worker's spans within the window; `computed` by shade, from 1 to FULL quarters of the time."""

    actor: str
    computed: dict[int, list[Span]] = field(default_factory=dict)
    waited: list[Span] = field(default_factory=list)
    reports: list[float] = field(default_factory=list)


def window(group: Sequence[Series]) -> float:
    """The seconds that all timelines of a group show: a dozen steps of a middling run, and two of the slowest."""
    many, two = [], []
    for one in group:
        first = worker(0)
        ends = [event.time for event in one.outcome.events if isinstance(event, Stepped) and event.actor == first]
        ends = ends or [event.time for event in one.outcome.events if isinstance(event, Computed) and event.actor == first]
        if ends:
            many.append(ends[: _STEPS + 1][-1])
            two.append(ends[:2][-1])
    return max(median(many), *two) if many else 0.0


def rows_of(outcome: Outcome, seconds: float) -> list[Row]:
    """The first `seconds` of the workers, evenly chosen where there are more than eight."""
    actors = sorted({event.actor for event in outcome.events if isinstance(event, (Computed, Waited))}, key=rank_of)
    if len(actors) > _ROWS:
        actors = [actors[round(index * (len(actors) - 1) / (_ROWS - 1))] for index in range(_ROWS)]
    rows = {actor: Row(actor) for actor in actors}
    computed: dict[str, list[Span]] = {actor: [] for actor in actors}
    for event in outcome.events:
        row = rows.get(event.actor)
        if row is None:
            continue
        if isinstance(event, Reported) and event.time <= seconds:
            row.reports.append(event.time)
        elif isinstance(event, (Computed, Waited)) and event.time - event.seconds < seconds:
            span = (max(0.0, event.time - event.seconds), min(event.time, seconds))
            (row.waited if isinstance(event, Waited) else computed[event.actor]).append(span)
    for row in rows.values():
        _shade(row, computed[row.actor], seconds)
    return list(rows.values())


def _shade(row: Row, computed: list[Span], seconds: float) -> None:
    """Spans as they are where few, else as the quarters of each of 200 moments that were spent on computing."""
    shortest = seconds / 1000
    row.waited = joined(row.waited, shortest)
    # Joined only where nothing lies between: a hundred short waits must not disappear into one bar of work.
    exact = joined(computed, seconds * 1e-6)
    if len(exact) <= _BINS // 2:
        row.computed = {FULL: exact}
        return
    width = seconds / _BINS
    shares = [0.0] * _BINS
    for begin, end in computed:
        for index in range(int(begin / width), min(int(end / width), _BINS - 1) + 1):
            shares[index] += max(0.0, min(end, (index + 1) * width) - max(begin, index * width)) / width
    for index, share in enumerate(shares):
        level = min(FULL, round(share * FULL))
        if level:
            row.computed.setdefault(level, []).append((index * width, (index + 1) * width))
    row.computed = {level: joined(spans, shortest) for level, spans in sorted(row.computed.items())}


def joined(spans: list[Span], gap: float) -> list[Span]:
    """The same spans in order, those that are less than `gap` apart made one."""
    result: list[Span] = []
    for begin, end in sorted(spans):
        if result and begin - result[-1][1] < gap:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result


def shares(outcome: Outcome) -> tuple[float, float] | None:
    """Which parts of all workers' time over the whole run went into computing and into waiting; None where no time was recorded."""
    computed = sum(event.seconds for event in outcome.events if isinstance(event, Computed))
    waited = sum(event.seconds for event in outcome.events if isinstance(event, Waited))
    end = outcome.time or max((event.time for event in outcome.events), default=0.0)
    whole = end * max(1, len({event.actor for event in outcome.events if isinstance(event, (Computed, Waited))}))
    return (computed / whole, waited / whole) if whole > 0 and computed + waited > 0 else None
