"""The timetable of a list of jobs: which starts when and where, so that their mean completion time is least. Pure.

A depth-first search over orders and places with bounds (branch and bound): exact where it ends within its number of nodes, and otherwise
the best that it found, beginning with the greedy one: the job that would end first comes first. Jobs are not interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NODES = 200_000


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run a job: workers by host, in the order of names, and its seconds there."""

    job: str
    hosts: tuple[tuple[str, int], ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A job in the timetable."""

    option: Option
    starts: float

    @property
    def ends(self) -> float:
        """When it ends."""
        return self.starts + self.option.seconds


@dataclass(frozen=True, slots=True)
class Timetable:
    """The entries in the order of their starts, and whether it is known that none is better."""

    entries: tuple[Entry, ...]
    is_optimal: bool

    @property
    def mean(self) -> float:
        """The mean completion time."""
        return sum(entry.ends for entry in self.entries) / max(1, len(self.entries))


@dataclass(frozen=True, slots=True)
class Room:
    """The room of hosts: the thousandths of a host that one worker of a job takes, and what is taken, of which host, until when."""

    share: Mapping[tuple[str, str], int]
    taken: tuple[tuple[str, int, float], ...] = ()


def timetable(options: Mapping[str, Sequence[Option]], room: Room, nodes: int = NODES) -> Timetable:
    """The timetable of all jobs that have an option."""
    search = _Search({job: _undominated(found) for job, found in options.items() if found}, room, nodes)
    search.greedy()
    search.deeper((), 0.0)
    return Timetable(tuple(sorted(search.best, key=lambda entry: (entry.starts, entry.option.job))), search.left > 0)


class _Search:
    def __init__(self, options: Mapping[str, Sequence[Option]], room: Room, nodes: int) -> None:
        self._options = options
        self._room = room
        self._least = {job: min(option.seconds for option in found) for job, found in options.items()}
        self.left = nodes
        self.best: tuple[Entry, ...] = ()
        self._sum = math.inf

    def greedy(self) -> None:
        """Again and again the job, and its place, that ends first."""
        entries: tuple[Entry, ...] = ()
        while len(entries) < len(self._options):
            placed = {entry.option.job for entry in entries}
            ways = [
                Entry(option, self._start(option, entries)) for job, found in self._options.items() if job not in placed for option in found
            ]
            entries = (*entries, min(ways, key=lambda entry: (entry.ends, entry.option.job, entry.option.hosts)))
        self.best, self._sum = entries, sum(entry.ends for entry in entries)

    def deeper(self, entries: tuple[Entry, ...], total: float) -> None:
        """All continuations of `entries` that may be better than the best."""
        placed = {entry.option.job for entry in entries}
        waiting = [job for job in self._options if job not in placed]
        if not waiting:
            if total < self._sum - 1e-9:
                self.best, self._sum = entries, total
            return
        bound = sum(self._least[job] for job in waiting)
        ways = [Entry(option, self._start(option, entries)) for job in waiting for option in self._options[job]]
        for way in sorted(ways, key=lambda entry: (entry.ends, entry.option.job, entry.option.hosts)):
            if self.left <= 0:
                return
            self.left -= 1
            if total + way.ends + bound - self._least[way.option.job] < self._sum - 1e-9:
                self.deeper((*entries, way), total + way.ends)

    def _start(self, option: Option, entries: Sequence[Entry]) -> float:
        """The first moment from which the option has room until its end: now, or when another job ends."""
        moments = sorted({0.0, *(entry.ends for entry in entries), *(until for _, _, until in self._room.taken)})
        return next(moment for moment in moments if self._fits(option, moment, entries))

    def _fits(self, option: Option, start: float, entries: Sequence[Entry]) -> bool:
        ends = start + option.seconds
        changes = [start, *(entry.starts for entry in entries if start < entry.starts < ends)]
        return all(
            self._free(host, count * self._room.share[option.job, host], moment, entries)
            for host, count in option.hosts
            for moment in changes
        )

    def _free(self, host: str, wanted: int, moment: float, entries: Sequence[Entry]) -> bool:
        used = sum(amount for name, amount, until in self._room.taken if name == host and moment < until)
        for entry in entries:
            if entry.starts <= moment < entry.ends:
                used += sum(count * self._room.share[entry.option.job, host] for name, count in entry.option.hosts if name == host)
        return used + wanted <= 1000


def _undominated(options: Sequence[Option]) -> list[Option]:
    """The options without those that need all that another one needs and are not faster."""
    kept = []
    for place, option in enumerate(options):
        others = [(number, each) for number, each in enumerate(options) if number != place and _within(each, option)]
        if not any(
            each.seconds < option.seconds or (each.seconds == option.seconds and (each.hosts != option.hosts or number < place))
            for number, each in others
        ):
            kept.append(option)
    return kept


def _within(one: Option, other: Option) -> bool:
    counts = dict(other.hosts)
    return all(counts.get(host, 0) >= count for host, count in one.hosts)
