"""Reads a run directory, also of a run that failed or whose files are damaged."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError

from polyrhythm.core.lock import is_held
from polyrhythm.core.records import document, event_lines, unfinished, weights
from polyrhythm.core.records.directory import EARLIER, EVENTS, RUN, WEIGHTS, path_of, reason
from polyrhythm.core.records.event_lines import UNREADABLE, EventLines
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.typed_files import instead
from polyrhythm.errors import CompositionError

_DAMAGED = 120
_WRITTEN = "give one written by run --out or compare --out."


def load(directory: str | Path, summary: Summary | None = None) -> Outcome:
    """Read a run directory (without its weights): of a run that has ended, was killed, or is under way.

    Missing or damaged parts that are not essential are named in the outcome's `remarks`. `summary` is used where run.json is missing or
    damaged. Raises CompositionError for what is no run directory, or cannot be read.
    """
    path = path_of(directory)
    try:
        return _load(path, summary)
    except OSError as problem:
        raise CompositionError(f"The record in {path} cannot be read: {reason(problem)}.") from None


def _load(path: Path, summary: Summary | None) -> Outcome:
    if not any((path / name).is_file() for name in (RUN, EVENTS)):
        raise CompositionError(f"{path} is not a run directory: {instead(path, _WRITTEN)}{_others(path)}")
    going_on = is_held(path / EVENTS)  # first: a run that ends now writes its last event before it releases the lock
    outcome = _outcome(path, summary)
    found = _lines(path, going_on)
    outcome.events = found.events
    outcome.remarks = [*outcome.remarks, *(remark for remark in found.remarks if remark not in outcome.remarks)]
    if outcome.state == "running":
        unfinished.count(outcome)
        outcome.summary.error = (
            f"The run is still running: {unfinished.extent(outcome)} so far."
            if going_on
            else f"The run did not end: {unfinished.extent(outcome)}."
        )
    elif outcome.summary.weights_sha256 is not None:
        outcome.remarks += _amiss(path / WEIGHTS)
    return outcome


def _others(path: Path) -> str:
    """A sentence about records that are near: of an earlier run, or of the workers of a run that was joined."""
    if (path / EARLIER / RUN).is_file():
        return f" (The record of an earlier run is in {path / EARLIER}.)"
    first = min((found.parent for found in path.glob(f"*/{RUN}")), default=None)
    return f" (There is one in {first}.)" if first is not None else ""


def _outcome(path: Path, summary: Summary | None) -> Outcome:
    """The content of run.json, or `summary` where that is missing."""
    try:
        return document.read(path / RUN)
    except FileNotFoundError:
        trouble = f"{RUN} is missing"
    except UNREADABLE as problem:
        trouble = f"{RUN} is damaged ({str(problem)[:_DAMAGED].rstrip('.')})"
    if summary is None:
        events = Outcome(Summary("", 1, "processes", None, 0), _lines(path, False).events)
        left = f" Its {EVENTS} holds {unfinished.extent(events)}." if events.events else ""
        raise CompositionError(f"The record in {path} cannot be read: {trouble}. Run it again.{left}")
    return Outcome(summary, state="failed" if summary.error is not None else "ended", remarks=[f"{trouble}, so its settings are unknown."])


def _lines(path: Path, going_on: bool) -> EventLines:
    if not (path / EVENTS).is_file():
        return EventLines([], [f"{EVENTS} is missing."])
    try:
        return event_lines.read(path / EVENTS, going_on)
    except OSError as problem:
        return EventLines([], [f"{EVENTS} cannot be read: {reason(problem)}."])


def _amiss(path: Path) -> list[str]:
    try:
        weights.check(path)
    except FileNotFoundError:
        return [f"{path.name} is missing."]
    except (OSError, SafetensorError) as problem:
        return [f"{path.name} is damaged: {reason(problem)}."]
    return []
