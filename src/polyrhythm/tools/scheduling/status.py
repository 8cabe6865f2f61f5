"""The status of jobs that are carried out, as a file that others may read: `polyrhythm cluster watch` shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from polyrhythm.cluster import ClusterState
from polyrhythm.core import atomic
from polyrhythm.core.typed_files import instead
from polyrhythm.errors import RecordError
from polyrhythm.tools.scheduling.backend import SchedulerRound
from polyrhythm.tools.scheduling.job_run import CarriedJob

FILE = "cluster.json"


class JobStatus(msgspec.Struct, frozen=True):
    """One job: "waiting", "pending" (placed, and not let in by the engine), "running", "ended" or "failed"; since how many seconds, or for
    how many, and why it waits, is pending or has failed."""

    name: str
    state: str
    hosts: dict[str, int] = {}
    workers: str = ""
    seconds: float | None = None
    reason: str = ""
    attempt: int = 0


class ClusterStatus(msgspec.Struct, frozen=True):
    """All jobs and the health of all hosts; `process` carries them out, and is `over` at the end."""

    site: str
    process: int
    jobs: list[JobStatus]
    hosts: dict[str, str]
    agents: dict[str, int] = {}
    over: bool = False


def job_status(run: CarriedJob, state: ClusterState, pending: dict[str, str], now: float) -> JobStatus:
    """The status of one job."""
    job = run.training.job
    counts: dict[str, int] = {}
    placement = state.running.get(run.name)
    for slot in placement.slots if placement is not None else ():
        counts[slot.host] = counts.get(slot.host, 0) + 1
    wanted = f"{job.least}..{job.workers}" if job.is_malleable else str(job.workers)
    if run.over is not None:
        return JobStatus(run.name, run.over, {}, wanted, run.seconds, run.reason, run.attempt)
    spent = None if run.begun is None else now - run.begun
    if counts and run.held:
        return JobStatus(run.name, "pending", counts, wanted, spent, run.held, run.attempt)
    return JobStatus(run.name, "running" if counts else "waiting", counts, wanted, spent, pending.get(run.name, ""), run.attempt)


def read_status(directory: Path) -> ClusterStatus:
    """The newest status in a directory. Raises RecordError where there is none."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=ClusterStatus)
    except OSError as problem:
        given = instead(directory, "give the --out of `polyrhythm cluster run`.")
        raise RecordError(f"{directory} has no status of a cluster's jobs: {given}") from problem
    except msgspec.MsgspecError as problem:
        raise RecordError(f"{directory / FILE} cannot be used: {problem}. Start `polyrhythm cluster run` again.") from problem


def is_carried(status: ClusterStatus) -> bool:
    """True if the process that carries these jobs out is there."""
    return Path(f"/proc/{status.process}").exists()


def write_status(status: ClusterStatus, directory: Path) -> None:
    """Write it in one piece."""
    atomic.write(directory / FILE, msgspec.json.encode(status))


def statuses(runs: Mapping[str, CarriedJob], done: SchedulerRound, now: float) -> list[JobStatus]:
    """The status of all jobs after a round."""
    return [job_status(run, done.state, dict(done.pending), now) for run in runs.values()]
