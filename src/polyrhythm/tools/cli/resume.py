"""Runs that a directory holds already: reused where they ended without an error and all their settings are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from polyrhythm.core.records.event_lines import UNREADABLE
from polyrhythm.core.records.load import load
from polyrhythm.core.records.outcome import Outcome, versions
from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.planned_run import Planned

_SHOWN = 60


def kept(plan: Planned, directory: Path) -> Outcome | None:
    """The outcome of `plan` from `directory`, or None where it must be run: it is not there, not whole, failed, or is another's."""
    document = _record(directory)
    if document is None or difference(plan, directory) is not None:
        return None
    try:
        outcome = load(directory)
    except CompositionError:
        return None
    whole = outcome.state == "ended" and outcome.summary.error is None and not outcome.remarks
    return outcome if whole and plan.is_whole(outcome) else None


def difference(plan: Planned, directory: Path) -> str | None:
    """The first difference between the run in `directory`, if there is one, and `plan`: "train was fit(lr=0.1)"."""
    document = _record(directory)
    if document is None:
        return None
    there, here = _decisive(document), {**plan.decisive(), **versions()}
    for name, value in here.items():
        if there.get(name) != value:
            shown = str(there.get(name, "not recorded"))
            return f"{name} was {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + ' …'}"
    return None


def _record(directory: Path) -> dict[str, Any] | None:
    try:
        document = msgspec.json.decode((directory / "run.json").read_bytes())
    except (OSError, *UNREADABLE):
        return None
    return document if isinstance(document, dict) else None


def _decisive(document: dict[str, Any]) -> dict[str, Any]:
    """The settings of a record that decided the run."""
    parts = [document.get(part) for part in ("settings", "versions", "summary")]
    return {name: value for part in parts if isinstance(part, dict) for name, value in part.items()}
