"""What the two grids of trainings have in common: the job, its settings, and the quantities of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from polyrhythm.core.job_files.settings import Train
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.training.run import attempt
from polyrhythm.errors import CompositionError
from polyrhythm.systems import find
from polyrhythm.tools.report.shares import shares
from polyrhythm.tools.studies.grid import Cell, Level
from polyrhythm.workloads.load import file_of, load_workload

UNITS = {"samples/s": "samples/s", "seconds": "s", "computing": "%", "bytes sent": "bytes"}


def loaded(job: str, settings: Mapping[str, Any], vary: Sequence[str], cell: Cell) -> Train:
    """The training function of a cell: `settings`, and its levels of the settings that vary."""
    return load_workload(job, {**settings, **{name: cell[name] for name in vary}})


def check_job(job: str, settings: Mapping[str, Any], vary: Mapping[str, Sequence[Level]], factors: Sequence[str]) -> None:
    """Raise PolyrhythmErrors for a job that does not exist, and for settings that it does not have or that are given twice."""
    for name in vary:
        if name in factors or name in settings:
            where = "[settings]" if name in settings else "the grid's own factors"
            raise CompositionError(f"{name} varies, and is in {where} too: leave one of the two out.")
    for name, levels in vary.items():
        for level in levels:
            load_workload(job, {**settings, name: level})
    load_workload(job, settings)


def job_facts(job: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The job, its settings, and the contents of its file."""
    file = file_of(job)
    own = {} if file is None else {"job sha256": sha256(file.read_bytes()).hexdigest()}
    return {"job": job, "settings": dict(settings), **own}


def quantities(train: Train, system: str, workers: int, on: Runtime, seed: int) -> dict[str, float]:
    """Train once, and measure. Raises what the run raised.

    `samples/s` are those of all workers over the seconds of the whole run, its evaluations too; `computing` is the part of all workers'
    time that was not spent waiting, in per cent.
    """
    outcome = attempt(train, workers=workers, strategy=find(system), on=on, seed=seed).completed()
    summary, parts = outcome.summary, shares(outcome)
    found = {"samples/s": summary.samples / outcome.time, "seconds": outcome.time} if outcome.time else {}
    found |= {} if parts is None else {"computing": 100 * parts[0]}
    return {**found, "bytes sent": float(summary.bytes_sent), **{f"final {name}": value for name, value in summary.final.items()}}
