"""The record of a comparison: one JSON object, a directory for each run, and a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from polyrhythm.errors import CompositionError
from polyrhythm.report.metrics import Target
from polyrhythm.report.outcome import Outcome, Summary, load

_NAME = "compare.json"


class Comparison(msgspec.Struct):
    """What `polyrhythm compare --json` prints. `target` is the metric and value of `--to`, or null."""

    job: str
    target: Target | None
    runs: list[Summary]


def keep(comparison: Comparison, outcomes: Sequence[Outcome], directory: Path, command: str) -> Path:
    """Write compare.json and report.html into `directory`; the runs have written their own directories there."""
    (directory / _NAME).write_bytes(msgspec.json.format(msgspec.json.encode(comparison), indent=2) + b"\n")
    return write_page(comparison.job, outcomes, directory / "report.html", comparison.target, command)


def read(directories: Sequence[Path]) -> tuple[str, list[Outcome], Target | None]:
    """The title, outcomes and target of run directories, and of comparisons, whose runs come in their own order."""
    title, outcomes, target = "", [], None
    for directory in directories:
        if (directory / _NAME).is_file():
            comparison = _parsed(directory / _NAME)
            title, target = title or comparison.job, target or comparison.target
            outcomes += [_run(directory / summary.system, summary) for summary in comparison.runs]
        else:
            outcomes.append(_run(directory))
    return title or ", ".join(str(directory) for directory in directories), outcomes, target


def _parsed(path: Path) -> Comparison:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Comparison)
    except msgspec.MsgspecError as error:
        raise CompositionError(f"{path} is not what polyrhythm compare writes: {error}.") from None


def _run(directory: Path, summary: Summary | None = None) -> Outcome:
    """The run in `directory`; a run that failed before it wrote anything is its `summary` alone."""
    if summary is not None and summary.error is not None and not (directory / "run.json").is_file():
        return Outcome(summary)
    if not (directory / "run.json").is_file():
        raise CompositionError(f"{directory} is not a run directory: give one that run --out or compare --out has written.")
    try:
        return load(directory)
    except (OSError, KeyError, msgspec.MsgspecError) as error:
        raise CompositionError(f"The record in {directory} cannot be read: {error}. Run it again.") from None


def write_page(title: str, outcomes: Sequence[Outcome], path: Path, target: Target | None, command: str | None = None) -> Path:
    """The page about `outcomes`, written to `path`; `command` is the line that would make it again."""
    from polyrhythm.report import page  # here, because it loads the plotting library

    try:
        return page.write(outcomes, path, title, target, command)
    except OSError as error:
        raise CompositionError(f"{path} cannot be written: {error.strerror}. Give another place with --out.") from None
