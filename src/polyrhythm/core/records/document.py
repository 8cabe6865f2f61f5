"""run.json: the summary of a run, its settings, the versions that it depends on, and how far it is."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from polyrhythm.core.records.event_lines import UNREADABLE, encoded
from polyrhythm.core.records.outcome import Outcome, State, Summary, versions

NOT_ENDED = "The run has not ended, or was killed."
_MOST = 2**63


class Document(msgspec.Struct, kw_only=True):
    """The file as JSON. Records from before there were states have none."""

    state: State | None = None
    summary: Summary
    settings: dict[str, str]
    versions: dict[str, str] = {}
    remarks: list[str] = []


def content(outcome: Outcome) -> bytes:
    """The content of run.json for `outcome`."""
    summary = outcome.summary
    if outcome.state == "running":  # a reader of the summary alone must not take it for a complete run
        summary = msgspec.structs.replace(summary, error=NOT_ENDED)
    document = Document(state=outcome.state, summary=summary, settings=outcome.settings, versions=versions(), remarks=outcome.remarks)
    return msgspec.json.format(encoded(document), indent=2) + b"\n"


def read(path: Path) -> Outcome:
    """The outcome in the file at `path`, without events and weights. Raises OSError, and one of UNREADABLE for what no run has written."""
    document = msgspec.json.decode(path.read_bytes(), type=Document)
    summary = document.summary
    counts = (summary.steps, summary.samples, summary.bytes_sent, summary.messages_sent, summary.seconds, summary.virtual_seconds)
    if summary.workers < 1 or not all(0 <= count < _MOST and math.isfinite(count) for count in counts if count is not None):
        raise ValueError("it holds a number that cannot be")
    state = document.state or ("failed" if summary.error is not None else "ended")
    return Outcome(summary, settings=document.settings, state=state, remarks=document.remarks)


__all__ = ["NOT_ENDED", "UNREADABLE", "Document", "content", "read"]
