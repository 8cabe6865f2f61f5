"""The tracks of a timeline in addition to those of actors: the tensors or collectives of each worker, and the links between actors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from polyrhythm.core.kernel.events import AnyEvent, Communicated, Delivered, Progressed

Record = dict[str, Any]
Spanning = Progressed | Communicated | Delivered
Place = dict[str, int]
"""The process and the thread of a track."""


class Tracks:
    """A process for the tensors of each worker, one for its collectives, by mesh axis, and one for the links; a thread for each of them.

    The iterators give their numbers.

    What is on one track never overlaps: where a message leaves before the one ahead of it has arrived, it is shown from then on.
    """

    def __init__(self, label: str, events: Sequence[AnyEvent], processes: Iterator[int], threads: Iterator[int]) -> None:
        self.label = label
        self.processes: dict[str, int] = {}
        self.places: dict[tuple[str, str], Place] = {}
        self.ends: dict[tuple[str, str], float] = {}
        for event in events:
            if isinstance(event, Spanning):
                owner, name = _track(event)
                if owner not in self.processes:
                    self.processes[owner] = next(processes)
                if (owner, name) not in self.places:
                    self.places[owner, name] = {"pid": self.processes[owner], "tid": next(threads)}

    def named(self) -> Iterator[Record]:
        """The records that name the tracks."""
        for owner, process in self.processes.items():
            yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": f"{self.label}: {owner}"}}
            yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
        for (_, name), place in self.places.items():
            yield {"ph": "M", "name": "thread_name", **place, "args": {"name": name}}

    def span(self, event: Spanning) -> Record:
        """The event on its track."""
        track = _track(event)
        begin, end = max(self.ends.get(track, 0.0), event.time - event.seconds), event.time
        self.ends[track] = end
        arguments: Record
        if isinstance(event, Progressed):
            name, arguments = event.phase, {"tensor": event.tensor, "seconds": event.seconds}
        elif isinstance(event, Communicated):
            name, arguments = event.what, {"of": event.of, "line": event.where, "bytes": event.nbytes, "waited": event.waited}
        else:
            name, arguments = event.topic, {"bytes": event.nbytes, "seconds": event.seconds}
        times = {"ts": round(begin * 1e6, 3), "dur": round((end - begin) * 1e6, 3)}
        return {"ph": "X", "name": name, "cat": track[0], **times, **self.places[track], "args": arguments}


def _track(event: Spanning) -> tuple[str, str]:
    """The owner of its track, and the name of the track."""
    if isinstance(event, Communicated):
        return f"collectives of {event.actor}", event.axis or "other"
    return (f"tensors of {event.actor}", event.tensor) if isinstance(event, Progressed) else ("links", event.link)
