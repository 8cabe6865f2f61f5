"""The numbers of a run that has not ended, from its events."""

from __future__ import annotations

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.outcome import Outcome
from polyrhythm.core.units import show_seconds


def count(outcome: Outcome) -> None:
    """Complete the summary's steps, samples, bytes and time from the events."""
    summary = outcome.summary
    stepped = {event.actor: event for event in outcome.events if isinstance(event, Stepped)}
    summary.steps = max((event.clock for event in stepped.values()), default=0)
    summary.samples = sum(event.samples for event in stepped.values())
    known = [event.bytes_sent for event in stepped.values()]  # in virtual time each counts all actors, in real processes itself
    summary.bytes_sent = max(known, default=0) if summary.on == "simulator" else sum(known)
    summary.messages_sent = None
    passed(outcome, latest(outcome))


def passed(outcome: Outcome, seconds: float) -> None:
    """Set the time of the run, virtual or real."""
    summary = outcome.summary
    if summary.on == "simulator":
        summary.virtual_seconds = seconds
    else:
        summary.seconds = seconds


def latest(outcome: Outcome) -> float:
    """The time of the last event."""
    return max((event.time for event in outcome.events), default=0.0)


def extent(outcome: Outcome) -> str:
    """The events that are known, as text: "5,545 events until 12.3 s"."""
    many = len(outcome.events)
    return f"{many:,} event{'s' * (many != 1)}" + (f" until {show_seconds(latest(outcome))}" if many else "")
