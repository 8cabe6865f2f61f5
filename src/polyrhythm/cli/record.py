"""The record of a comparison: one JSON object, a directory for each run, and a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from polyrhythm.errors import CompositionError
from polyrhythm.report.atomic import write
from polyrhythm.report.directory import reason
from polyrhythm.report.lines import UNREADABLE, encoded
from polyrhythm.report.load import load
from polyrhythm.report.metrics import Target
from polyrhythm.report.outcome import Outcome, Summary

_NAME = "compare.json"


class Comparison(msgspec.Struct):
    """What `polyrhythm compare --json` prints. `target` is the metric and value of `--to`, or null."""

    job: str
    target: Target | None
    runs: list[Summary]


def keep(comparison: Comparison, outcomes: Sequence[Outcome], directory: Path, command: str) -> Path:
    """Write compare.json and report.html into `directory`; the runs have written their own directories there."""
    path = directory / _NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write(path, msgspec.json.format(encoded(comparison), indent=2) + b"\n")
    except OSError as error:
        raise CompositionError(f"{path} cannot be written: {reason(error)}. Give another place with --out.") from None
    return write_page(comparison.job, outcomes, directory / "report.html", comparison.target, command)


def read(directories: Sequence[Path]) -> tuple[str, list[Outcome], Target | None]:
    """The title, outcomes and target of run directories, and of comparisons, whose runs come in their own order."""
    title, outcomes, target = "", [], None
    for directory in directories:
        if (directory / _NAME).exists():
            comparison = _parsed(directory / _NAME)
            title, target = title or comparison.job, target or comparison.target
            outcomes += [_run(directory / summary.system, summary) for summary in comparison.runs]
        else:
            outcomes.append(load(directory))
    return title or ", ".join(str(directory) for directory in directories), outcomes, target


def _parsed(path: Path) -> Comparison:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Comparison)
    except (OSError, *UNREADABLE) as error:
        raise CompositionError(f"{path} is not what polyrhythm compare writes: {reason(error)}.") from None


def _run(directory: Path, summary: Summary) -> Outcome:
    """A run of a comparison; one that failed before it wrote anything is its `summary` alone."""
    if summary.error is not None and not directory.is_dir():
        return Outcome(summary, state="failed")
    return load(directory, summary)


def write_page(title: str, outcomes: Sequence[Outcome], path: Path, target: Target | None, command: str | None = None) -> Path:
    """The page about `outcomes`, written to `path`; `command` is the line that would make it again."""
    from polyrhythm.report import page  # here, because it loads the plotting library

    try:
        return page.write(outcomes, path, title, target, command)
    except OSError as error:
        raise CompositionError(f"{path} cannot be written: {reason(error)}. Give another place with --out.") from None
