"""A list of jobs goes on where an earlier command has left it: its status says what has ended, and how often each was tried."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from polyrhythm.core import atomic
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.job_run import CarriedJob
from polyrhythm.tools.scheduling.status import FILE, is_carried, read_status

_TOKEN = ".run"


def token_of(directory: Path) -> str:
    """The token of the list of jobs that is carried out in `directory`, by which an engine knows what is that list's."""
    path = directory / _TOKEN
    if not path.exists():
        atomic.write(path, secrets.token_hex(8).encode())
    return path.read_text()


def go_on(runs: Mapping[str, CarriedJob], directory: Path) -> list[str]:
    """Bring `runs` to what the status in `directory` says, and return the jobs that have ended before, which stay so.

    A list that was broken off goes on as the same. Of one that came to its end the failed jobs are tried again, in another attempt.
    Raises CompositionError while another process carries that list out.
    """
    last = read_status(directory) if (directory / FILE).exists() else None
    if last is None or last.over:
        (directory / _TOKEN).unlink(missing_ok=True)
    if last is None:
        return []
    if not last.over and is_carried(last):
        raise CompositionError(f"Process {last.process} carries out jobs with this --out, {directory}: give another, or end it first.")
    for status in last.jobs:
        run = runs.get(status.name)
        if run is None:
            continue
        run.attempt = status.attempt
        run.started = 1 + max((int(log.stem.rpartition("-")[2]) for log in (directory / status.name).glob("worker-*.log")), default=-1)
        if status.state == "ended" or (status.state == "failed" and not last.over):
            run.over, run.seconds, run.reason = status.state, status.seconds, status.reason
    return [run.name for run in runs.values() if run.over == "ended"]
