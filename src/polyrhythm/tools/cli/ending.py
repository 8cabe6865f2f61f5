"""How a command ends that has made one run: what it prints, and its exit code. `run` and `simulate` end so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from polyrhythm.errors import PolyrhythmError
from polyrhythm.tools.cli.failures import exit_code, notice, show_error

if TYPE_CHECKING:
    from polyrhythm.core.records.metrics import Target
    from polyrhythm.core.records.outcome import Outcome
    from polyrhythm.core.training.run import Attempt


def _no_more(outcome: Outcome) -> None:
    """The default: the table is all."""


def ended(
    attempt: Attempt,
    as_json: bool,
    kept: Path | None,
    *,
    remarks: Sequence[str] = (),
    further: Callable[[Outcome], None] = _no_more,
    target: Target | None = None,
    code: Callable[[PolyrhythmError], int] = exit_code,
) -> int:
    """Print the result of the run, settings of its record that are `remarks`, and what `further` prints; returns the exit code."""
    from polyrhythm.tools.cli.output import print_json, print_outcomes

    outcome = attempt.outcome
    for trouble in attempt.troubles:
        notice(trouble)
    if attempt.error is not None:
        status = code(attempt.error)
        if as_json and status != 2:
            print_json(outcome.summary)
        show_error(attempt.error)
        if kept is not None and status != 2:
            notice(f"the record until then is in {kept}; `polyrhythm report {quote(str(kept))}` shows it")
        return status
    if as_json:
        print_json(outcome.summary)
    else:
        print_outcomes([outcome], target)
        further(outcome)
    for name in remarks:
        if name in outcome.settings:
            notice(outcome.settings[name])
    if attempt.troubles:
        return 1
    if kept is not None:
        notice(f"the record of the run is in {kept}; `polyrhythm report {quote(str(kept))}` draws it")
    return 0
