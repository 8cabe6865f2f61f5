"""The record of a comparison: one JSON object, a directory for each run, and a page. `compare` writes it; `report` and others read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import msgspec

from polyrhythm.core.atomic import write
from polyrhythm.core.kernel.names import FIRST
from polyrhythm.core.records.directory import RUN, reason
from polyrhythm.core.records.event_lines import UNREADABLE, encoded
from polyrhythm.core.records.load import load
from polyrhythm.core.records.metrics import Target
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.errors import CompositionError
from polyrhythm.tools.cli.planned_run import COMMAND
from polyrhythm.tools.cli.tuning import Tuning, grid_of
from polyrhythm.tools.report.grid import Grid

COMPARISON = "compare.json"
_PLAIN = " ,"
_LONGEST = 200
"""Characters; most file systems take 255 bytes."""


class ComparisonRecord(msgspec.Struct):
    """The object that `polyrhythm compare --json` prints. `target` is the metric and value of `--to`, or null.

    `settings` are those of each system, as text, where any were given or tuned; `tuning` has the trials of `--tune`, or null; `command`
    makes the comparison again, and `places` are where the runs are kept.
    """

    job: str
    target: Target | None
    runs: list[Summary]
    seeds: list[int] = []
    settings: dict[str, dict[str, str]] = {}
    tuning: Tuning | None = None
    command: str | None = None
    places: list[str] = []


def place(system: str, seed: int, further: str = "") -> str:
    """The place of a run below its comparison's directory. It depends on system and seed alone, so that seeds may be added.

    `further` has the network, device or number of workers, where the comparison has several.
    """
    return f"{system}{further and f' ({quote(further, safe=_PLAIN)})'}/seed-{seed}"


def tuning_place(system: str, choice: Mapping[str, str]) -> str:
    """The place of a run of `--tune`: it depends on the settings chosen and not on their number, so that a grid may be made wider."""
    name = ",".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in sorted(choice.items()))
    return f"tuning/{system}/{name if len(name) <= _LONGEST else sha256(name.encode()).hexdigest()}"


def keep(comparison: ComparisonRecord, outcomes: Sequence[Outcome], directory: Path) -> Path:
    """Write compare.json and report.html into `directory`; the runs have written their own directories there."""
    path = directory / COMPARISON
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write(path, msgspec.json.format(encoded(comparison), indent=2) + b"\n")
    except OSError as error:
        raise CompositionError(f"{path} cannot be written: {reason(error)}. Give another place with --out.") from None
    tried = grid_of(comparison.tuning) if comparison.tuning is not None else None
    return write_page(StoredRuns(comparison.job, list(outcomes), comparison.target, comparison.command, tried), directory / "report.html")


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The contents of directories: title, outcomes, the first target and tuning, and the commands that made the runs, one a line."""

    title: str
    outcomes: list[Outcome]
    target: Target | None
    command: str | None
    tried: Grid | None = None


def read(directories: Sequence[Path]) -> StoredRuns:
    """Read run directories, those of comparisons (with their runs in the comparison's order), and directories that hold such."""
    title, outcomes, target, tuning = "", [], None, None
    commands: dict[str, None] = {}
    for directory in directories:
        if (directory / COMPARISON).exists():
            comparison = _parsed(directory / COMPARISON)
            title, target, tuning = title or comparison.job, target or comparison.target, tuning or comparison.tuning
            places = comparison.places or [place(each.system, each.seed) for each in comparison.runs]
            runs = [_run(directory / where, each) for where, each in zip(places, comparison.runs, strict=True)]
            commands |= {comparison.command: None} if comparison.command is not None else {}
        else:
            runs = [load(each) for each in _runs_in(directory)]
            commands |= {run.settings[COMMAND]: None for run in runs if COMMAND in run.settings}
        for run in runs:
            run.settings.pop(COMMAND, None)  # it is shown once, and is not a setting
        outcomes += runs
    title = title or ", ".join(str(directory) for directory in directories)
    return StoredRuns(title, outcomes, target, "\n".join(commands) or None, grid_of(tuning) if tuning is not None else None)


def _runs_in(directory: Path) -> list[Path]:
    """The run directories that `directory` stands for: itself, those of a comparison that was broken off, or worker 0's of a joined run."""
    below = sorted(found.parent for found in directory.glob(f"*/seed-*/{RUN}"))
    joined = directory / FIRST.replace("/", "-")
    return below or [joined if (joined / RUN).is_file() else directory]


def _parsed(path: Path) -> ComparisonRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ComparisonRecord)
    except (OSError, *UNREADABLE) as error:
        raise CompositionError(f"{path} is not what polyrhythm compare writes: {reason(error)}.") from None


def _run(directory: Path, summary: Summary) -> Outcome:
    """A run of a comparison. One that failed before it wrote anything is its `summary` alone, even if an earlier run left files there."""
    alone = Outcome(summary, state="failed")
    if summary.error is None:
        return load(directory, summary)
    if not directory.is_dir():
        return alone
    found = load(directory, summary)
    return alone if found.state == "ended" else found


def write_page(kept: StoredRuns, path: Path) -> Path:
    """The page about what was kept, written to `path`."""
    from polyrhythm.tools.report import page  # here, because it loads the plotting library

    try:
        return page.write(kept.outcomes, path, kept.title, kept.target, kept.command, kept.tried)
    except OSError as error:
        raise CompositionError(f"{path} cannot be written: {reason(error)}. Give another place with --out.") from None
