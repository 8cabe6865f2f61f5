"""A list of jobs goes on where a killed scheduler has left it, and in no other case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from polyrhythm.cluster import ClusterJob
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.continuing import go_on, token_of
from polyrhythm.tools.scheduling.job_run import CarriedJob
from polyrhythm.tools.scheduling.status import ClusterStatus, JobStatus, write_status
from polyrhythm.tools.scheduling.training_jobs import TrainingJob, TrainingOrder

JOBS = [JobStatus("a", "ended", seconds=3.0, attempt=1), JobStatus("b", "running", attempt=2), JobStatus("gone", "waiting")]


def _runs() -> dict[str, CarriedJob]:
    return {name: CarriedJob(TrainingJob(ClusterJob(name), TrainingOrder("train.py"))) for name in ("a", "b", "new")}


def _ended_process() -> int:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
    return process.pid


def test_jobs_that_have_ended_stay_so_and_others_begin_their_next_attempt(tmp_path: Path) -> None:
    write_status(ClusterStatus("s", _ended_process(), JOBS, {}), tmp_path)
    (tmp_path / "b").mkdir()
    for number in (0, 10, 9):
        (tmp_path / "b" / f"worker-{number}.log").touch()
    token, runs = token_of(tmp_path), _runs()
    assert go_on(runs, tmp_path)
    assert (runs["a"].over, runs["a"].seconds) == ("ended", 3.0)
    assert (runs["b"].over, runs["b"].attempt, runs["b"].started) == (None, 2, 11)
    assert (runs["new"].attempt, runs["new"].started) == (0, 0)
    assert token_of(tmp_path) == token


def test_a_list_that_is_over_begins_anew_as_another(tmp_path: Path) -> None:
    write_status(ClusterStatus("s", _ended_process(), JOBS, {}, over=True), tmp_path)
    token, runs = token_of(tmp_path), _runs()
    assert not go_on(runs, tmp_path)
    assert {run.over for run in runs.values()} == {None}
    assert token_of(tmp_path) != token


def test_two_schedulers_do_not_carry_one_list_out(tmp_path: Path) -> None:
    write_status(ClusterStatus("s", os.getpid(), JOBS, {}), tmp_path)
    with pytest.raises(CompositionError, match="give another, or end it first"):
        go_on(_runs(), tmp_path)
