"""What a program of torch.distributed communicated: the number, bytes and time of its collectives, by mesh axis and by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polyrhythm.core.kernel.events import Communicated
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.units import show_bytes, show_seconds
from polyrhythm.tools.report.series import Series

Key = tuple[str, ...]


@dataclass(slots=True)
class Communication:
    """The communication of one kind: collectives of all ranks, the bytes that they sent, and the seconds for which programs waited."""

    calls: int = 0
    nbytes: int = 0
    seconds: float = 0.0
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class CommunicationTable:
    """The communication of one run as a table."""

    series: Series
    columns: list[str]
    rows: list[list[str]]
    remark: str


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


def communication_tables(group: Sequence[Series], most: int) -> list[CommunicationTable]:
    """A table for each run that has collectives, with at most so many lines."""
    return [table for one in group if (table := communication_table(one, most)).rows]


def communication_table(series: Series, most: int) -> CommunicationTable:
    """The table of one run: for each line and rank, what is waited for longest first."""
    found = communication(series.outcome, by_line)
    ranks = max(1, series.outcome.summary.workers)
    rows = [
        [axis, what, where, f"{one.calls / ranks:.3g}", show_bytes(one.nbytes / ranks), *map(show_seconds, _of_rank(one, ranks))]
        for (axis, what, where), one in list(found.items())[:most]
    ]
    left = len(found) - len(rows)
    columns = ["mesh axis", "collective", "line", "calls", "bytes sent", "under way", "waited"]
    return CommunicationTable(series, columns, rows, f"and {left} more lines" if left else "")


def _of_rank(one: Communication, ranks: int) -> tuple[float, float]:
    return one.seconds / ranks, one.waited / ranks
