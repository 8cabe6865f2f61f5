"""The evidence about a run's time that its record contains."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from statistics import median

from polyrhythm.core.kernel.events import Computed, Delivered, Merged
from polyrhythm.core.kernel.names import is_worker
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report.connections import Connections
from polyrhythm.tools.report.critical_path import PathPart, critical_path
from polyrhythm.tools.report.step_times import StepTimes


@dataclass(frozen=True)
class Evidence:
    """The record of a run, with its critical path, step times and connections."""

    outcome: Outcome
    path: list[PathPart]
    steps: StepTimes
    connections: Connections

    @staticmethod
    def of(outcome: Outcome) -> Evidence:
        """Read from the events."""
        events = outcome.events
        return Evidence(outcome, critical_path(events), StepTimes(events), Connections(events))

    @property
    def seconds(self) -> float:
        """The length of the path in seconds."""
        return sum(part.seconds for part in self.path) or 1.0

    def computing(self, actor: str, since: float = 0.0) -> float:
        """The part of the path in which the actor computed, after a moment."""
        return self._share(part for part in self.path if part.what == "computing" and part.actor == actor and part.end > since)

    def sending(self, members: Collection[tuple[str, str]]) -> float:
        """The part of the path in which something was under way on these connections."""
        return self._share(part for part in self.path if part.what == "sending" and (part.actor, part.to) in members)

    def waiting(self, actor: str) -> float:
        """The part of the path in which the actor had a message and did something else."""
        return self._share(part for part in self.path if part.what == "waiting" and part.actor == actor)

    @property
    def exchanging(self) -> float:
        """The part of the path in which messages were waited for that were not held up by a server's merging."""
        under_way = [part for part in self.path if part.what == "sending" or (part.what == "waiting" and is_worker(part.actor))]
        held_up = sum(max((_shared(part, spans) for spans in self.merges.values()), default=0.0) for part in under_way)
        return self._share(under_way) - held_up / self.seconds

    @property
    def waited(self) -> float:
        """The part of the time in which a worker did not compute, in the median of workers.

        Where messages are not recorded, more of the path may seem to be computing: that of others, which waited as well.
        """
        computed: defaultdict[str, float] = defaultdict(float)
        for event in self.outcome.events:
            if isinstance(event, Computed) and is_worker(event.actor):
                computed[event.actor] += event.seconds
        return max(0.0, 1 - median(computed.values()) / self.seconds) if computed else 0.0

    @cached_property
    def followed(self) -> bool:
        """True if the record has every message, so that the path is known and not inferred."""
        return any(isinstance(event, Delivered) for event in self.outcome.events)

    @cached_property
    def merges(self) -> dict[str, list[tuple[float, float]]]:
        """The spans in which each server merged, in order; none of a virtual run, where merges are recorded with real seconds."""
        if self.outcome.summary.virtual_seconds is not None:
            return {}
        spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for event in self.outcome.events:
            if isinstance(event, Merged) and not is_worker(event.actor):
                spans[event.actor].append((event.time - event.seconds, event.time))
        return {name: sorted(own) for name, own in spans.items()}

    @property
    def unexplained(self) -> float:
        """The part of the time in which a worker waited for servers, and nothing was under way between them, nor did others compute."""
        worker = self.path[-1].actor if self.path and is_worker(self.path[-1].actor) else ""
        served = self.connections.served(worker) / self.seconds
        return max(0.0, self._share(part for part in self.path if part.what == "waiting") - served) if served else 0.0

    def _share(self, parts: Iterable[PathPart]) -> float:
        return sum(part.seconds for part in parts) / self.seconds


def _shared(part: PathPart, spans: Sequence[tuple[float, float]]) -> float:
    """The seconds of a part of the path that lie in any of these spans, which are in order."""
    begin = bisect_left(spans, part.begin, key=itemgetter(1))
    inside = itertools.takewhile(lambda span: span[0] < part.end, itertools.islice(spans, begin, None))
    return sum(min(part.end, end) - max(part.begin, start) for start, end in inside)
