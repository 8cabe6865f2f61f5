"""Carries jobs out from the beginning to the end: a round after each piece of news, and a status after each change."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from polyrhythm.cluster import Cluster, ClusterState, SchedulerConfig
from polyrhythm.core.kernel.stopping import notify
from polyrhythm.core.units import show_names
from polyrhythm.tools.scheduling.backend import JobsBackend, schedule_once
from polyrhythm.tools.scheduling.continuing import go_on
from polyrhythm.tools.scheduling.status import ClusterStatus, job_status, statuses, write_status

_PAUSE, _MOST = 0.1, 5


def carry(
    backend: JobsBackend, cluster: Cluster, config: SchedulerConfig, out: Path, told: Callable[[ClusterStatus], None]
) -> ClusterStatus:
    """Schedule until all jobs are over; each changed status is written to `out` and `told`. What an earlier command has left in `out` goes
    on."""
    if ended := go_on(backend.runs, out):
        notify(f"already ended in {out}: {show_names(ended, _MOST)}. What has ended stays so; give another --out to train it anew.")
    if backend.over:
        jobs = [job_status(run, ClusterState(cluster), {}, 0.0) for run in backend.runs.values()]
        write_status(status := ClusterStatus(cluster.name, os.getpid(), jobs, {}, over=True), out)
        return status
    while not backend.ready():
        time.sleep(_PAUSE)
    state, last = ClusterState(cluster), None
    while True:
        now = time.monotonic()
        done = schedule_once(backend, state, now, config)
        state = done.state
        status = ClusterStatus(
            cluster.name, os.getpid(), statuses(backend.runs, done, now), dict(backend.health), dict(backend.agents), backend.over
        )
        if last is None or _shown(status) != _shown(last):
            write_status(status, out)
            told(status)
            last = status
        if status.over:
            return status
        time.sleep(_PAUSE)


def _shown(status: ClusterStatus) -> object:
    """What of a status is news: not the seconds."""
    return [(job.name, job.state, job.hosts, job.reason) for job in status.jobs], status.hosts, status.agents
