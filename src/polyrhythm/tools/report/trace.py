"""A timeline of runs in Google's Trace Event Format, which ui.perfetto.dev, chrome://tracing and speedscope show.

A run is a process and an actor a thread of it. Computing and waiting are complete events ("X"), steps, reports, merges, stalls and
faults instants ("i"), and the bytes that all had sent a counter ("C"), as is the number of workers where it changes. Where a timeline was
recorded, the phases of each tensor's exchange, and the messages on each link, have processes of their own. Times are in microseconds since
the run began, virtual or real.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.core.atomic import replacing
from polyrhythm.core.kernel.events import (
    Adjusted,
    Agreed,
    AnyEvent,
    Carried,
    Communicated,
    Computed,
    CrewChanged,
    Delivered,
    Ended,
    Evaluated,
    Faulted,
    MemoryPeak,
    Merged,
    Overwritten,
    Progressed,
    Reported,
    Restarted,
    Saved,
    Sent,
    Stalled,
    Started,
    Stepped,
    Suspected,
    Undelivered,
    Waited,
)
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.tools.report.presence import changes, counted, presences
from polyrhythm.tools.report.series import is_virtual, series_of
from polyrhythm.tools.report.tracks import Tracks

Record = dict[str, Any]

_Instant = (
    Stepped
    | Reported
    | Evaluated
    | Merged
    | Agreed
    | Adjusted
    | Overwritten
    | Undelivered
    | CrewChanged
    | Saved
    | Faulted
    | Suspected
    | CrewChanged
    | Restarted
    | Stalled
    | Sent
    | Carried
    | MemoryPeak
    | Ended
)


def write(outcomes: Sequence[Outcome], path: str | Path) -> Path:
    """Write the trace of all `outcomes` to `path`, one process for each; the directory is made if it is missing. Raises OSError."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    encoder = msgspec.json.Encoder()
    with replacing(file) as fresh, fresh.open("wb") as out:
        out.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for index, record in enumerate(records(outcomes)):
            out.write((b",\n" if index else b"\n") + encoder.encode(record))
        out.write(b"\n]}\n")
    return file


def records(outcomes: Sequence[Outcome]) -> Iterator[Record]:
    """The trace's events, one run after the other."""
    threads = count(1)  # of numbers that no two processes share: viewers differ in whether they may
    others = count(len(outcomes) + 1)
    for process, one in enumerate(series_of(outcomes), start=1):
        name = f"{one.label}, {'virtual' if is_virtual(one.outcome) else 'real'} time"
        tracks = Tracks(one.label, one.outcome.events, others, threads)
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
        yield from _run(one.outcome, process, threads, tracks)


def _run(outcome: Outcome, process: int, threads: Iterator[int], tracks: Tracks) -> Iterator[Record]:
    actors = {actor: next(threads) for actor in sorted({event.actor for event in outcome.events}, key=_order)}
    for actor, thread in actors.items():
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": actor}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}
    yield from tracks.named()
    if changes(found := presences(outcome)):
        for time, number in counted(found):
            yield {"ph": "C", "name": "workers", "ts": _microseconds(time), "pid": process, "args": {"workers": number}}
    ends = dict.fromkeys(actors, 0.0)
    most = 0
    for event in sorted(outcome.events, key=lambda event: event.time):
        place = {"pid": process, "tid": actors[event.actor]}
        if isinstance(event, (Computed, Waited)):
            # Rounding must not lay one over the end of another: viewers read that as a call within a call.
            begin, end = max(ends[event.actor], _microseconds(event.time - event.seconds)), _microseconds(event.time)
            ends[event.actor] = max(begin, end)
            what = "computing" if isinstance(event, Computed) else "waiting"
            yield {"ph": "X", "name": what, "cat": what, "ts": begin, "dur": round(max(0.0, end - begin), 3), **place}
        elif isinstance(event, Progressed | Communicated | Delivered):
            yield tracks.span(event)
        elif not isinstance(event, Started):
            name, arguments = _instant(event)
            yield {"ph": "i", "s": "t", "name": name, "ts": _microseconds(event.time), **place, "args": arguments}
        sent = _sent(event, is_virtual(outcome))
        if sent > most:
            most = sent
            yield {"ph": "C", "name": "bytes sent", "ts": _microseconds(event.time), "pid": process, "args": {"bytes": sent}}


def _instant(event: _Instant) -> tuple[str, Record]:
    match event:
        case Stepped():
            return "step", {"step": event.clock, "samples": event.samples}
        case Reported():
            return "report", {"step": event.clock, **event.metrics}
        case Evaluated():
            return "evaluation", {"step": event.clock, **event.metrics}
        case Merged():
            return "merge", {"version": event.version, "staleness": event.staleness, "seconds": event.seconds}
        case Agreed():
            return "agreement", {"step": event.clock, **event.figures}
        case Adjusted():
            return "setting", {"step": event.clock, "setting": event.setting, "receiver": event.receiver, "value": event.value}
        case CrewChanged():
            return "crew", {"epoch": event.epoch, "members": event.members, "joined": event.joined, "left": event.left}
        case Saved():
            return "checkpoint", {"step": event.clock}
        case Overwritten():
            return "overwritten", {"writes": event.writes, "lost": event.lost}
        case Undelivered():
            return "undelivered", {"sent": event.sent, "arrived": event.arrived, "lost": event.lost, "produced": event.produced}
        case Faulted():
            return "fault", {"what": event.what}
        case Suspected():
            return "suspicion", {"verdict": event.verdict, "since": event.since}
        case Restarted():
            return "restart", {"reason": event.reason}
        case Stalled():
            return "stall", {"tensor": event.tensor, "missing": event.missing, "seconds": event.seconds}
        case Sent():
            return "send", {"to": event.to, "topic": event.topic, "bytes": event.nbytes}
        case Carried():
            return "carried", {
                "to": event.to,
                "bytes": event.nbytes,
                "messages": event.messages,
                "busy": event.busy,
                "resent": event.resent,
            }
        case MemoryPeak():
            return "peak of memory", {"bytes": event.peak, **event.roles}
        case Ended():
            return "end", {"bytes_sent": event.bytes_sent, "messages_sent": event.messages_sent}


def _sent(event: AnyEvent, virtual: bool) -> int:
    """The bytes that all had sent at `event`, 0 where it does not have them: in real processes a step counts its own process alone."""
    return event.bytes_sent if isinstance(event, Reported | Evaluated) or (virtual and isinstance(event, Stepped)) else 0


def _order(actor: str) -> tuple[bool, str, int]:
    """Workers first, each kind by number."""
    kind, _, number = actor.partition("/")
    return kind != "worker", kind, int(number) if number.isdecimal() else 0


def _microseconds(seconds: float) -> float:
    """To the nanosecond."""
    return round(seconds * 1e6, 3)
