"""The critical path of a run: from its last step backwards, what each moment waited for.

While a worker computes, the path runs along it. While it waits, the path goes back along the message that ended the wait to its sender
(where deliveries were recorded), or to the worker that computed last meanwhile (where they were not): Yang & Miller, "Critical path
analysis for the execution of parallel and distributed programs", ICDCS 1988.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from polyrhythm.core.kernel.events import AnyEvent, Computed, Delivered, Stepped, Waited
from polyrhythm.core.kernel.names import is_worker

_LEAST = 1e-9
_LONGEST = 200_000
"""A path has at most so many parts; a longer run is followed from its end."""


@dataclass(frozen=True, slots=True)
class PathPart:
    """A part of the path: `what` is "computing", "sending" or "waiting"; of a message, `to` is the receiver."""

    what: str
    actor: str
    to: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """The seconds that it took."""
        return self.end - self.begin


@dataclass(slots=True)
class _Actor:
    """The record of one actor, in the order of times."""

    spans: list[Computed | Waited] = field(default_factory=list)
    arrivals: list[Delivered] = field(default_factory=list)


def critical_path(events: Sequence[AnyEvent]) -> list[PathPart]:
    """The parts of the path, the first first; none where no worker took a step."""
    actors: defaultdict[str, _Actor] = defaultdict(_Actor)
    last: Stepped | None = None
    for event in sorted(events, key=attrgetter("time")):
        if isinstance(event, Computed | Waited):
            actors[event.actor].spans.append(event)
        elif isinstance(event, Delivered):
            actors[event.actor].arrivals.append(event)
        elif isinstance(event, Stepped):
            last = event
    if last is None:
        return []
    parts: list[PathPart] = []
    actor, now = last.actor, last.time
    while now > _LEAST and len(parts) < _LONGEST:
        part = _back(actors, actor, now)
        parts.append(part)
        now = part.begin
        actor = part.actor if part.what == "sending" else _next(actors, part)
    return parts[::-1]


def _back(actors: defaultdict[str, _Actor], actor: str, now: float) -> PathPart:
    """The part of the path that ends at `now` at `actor`: computing, a message under way to it, or waiting."""
    own = actors[actor]
    span = _covering(own.spans, now)
    if isinstance(span, Computed):
        return PathPart("computing", actor, "", max(0.0, span.time - span.seconds), now)
    since = max(0.0, span.time - span.seconds) if span is not None else _ended(own.spans, now)
    arrival = _before(own.arrivals, now, since)
    if arrival is not None:
        if arrival.time < now - _LEAST:  # it had come, and was being handled
            return PathPart("waiting", actor, "", arrival.time, now)
        return PathPart("sending", arrival.sender, actor, max(0.0, arrival.time - arrival.seconds), now)
    if not is_worker(actor) and own.arrivals:
        return PathPart("waiting", actor, "", 0.0, now)
    return PathPart("waiting", actor, "", _last_computed(actors, actor, since, now), now)


def _next(actors: defaultdict[str, _Actor], part: PathPart) -> str:
    """Whose part comes before: the worker that computed until then, where a wait was cut short by it."""
    if part.what == "computing" or not part.begin:
        return part.actor
    for name, one in sorted(actors.items()):
        span = _covering(one.spans, part.begin)
        if name != part.actor and isinstance(span, Computed) and abs(span.time - part.begin) < _LEAST:
            return name
    return part.actor


def _last_computed(actors: defaultdict[str, _Actor], actor: str, since: float, now: float) -> float:
    """The last moment at which another actor computed during a wait; the beginning of the wait, where none did."""
    if any(one.arrivals for one in actors.values()):
        return since
    ends = [since]
    for name, one in actors.items():
        place = bisect_left(one.spans, now - _LEAST, key=attrgetter("time"))
        for span in reversed(one.spans[:place]):
            if span.time <= since:
                break
            if name != actor and isinstance(span, Computed):
                ends.append(span.time)
                break
    return max(ends)


def _covering(spans: Sequence[Computed | Waited], now: float) -> Computed | Waited | None:
    """The span that the moment before `now` is in."""
    place = bisect_left(spans, now - _LEAST, key=attrgetter("time"))
    found = spans[place] if place < len(spans) else None
    return found if found is not None and found.time - found.seconds < now - _LEAST else None


def _ended(spans: Sequence[Computed | Waited], now: float) -> float:
    """The end of the last span before `now`; 0 where there is none."""
    place = bisect_left(spans, now - _LEAST, key=attrgetter("time"))
    return spans[place - 1].time if place else 0.0


def _before(arrivals: Sequence[Delivered], now: float, since: float) -> Delivered | None:
    """The last arrival until `now`, and after `since`."""
    place = bisect_left(arrivals, now + _LEAST, key=attrgetter("time")) - 1
    return arrivals[place] if place >= 0 and arrivals[place].time > since + _LEAST else None
