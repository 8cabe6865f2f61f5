"""A list of jobs goes on where an earlier command has left it, and not while that one carries it out."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from recorded_agents import CONFIG

from polyrhythm.cluster import Cluster, ClusterHost, ClusterJob
from polyrhythm.errors import CompositionError
from polyrhythm.tools.scheduling.carry import carry
from polyrhythm.tools.scheduling.continuing import go_on, token_of
from polyrhythm.tools.scheduling.job_run import CarriedJob
from polyrhythm.tools.scheduling.status import ClusterStatus, JobStatus, read_status, write_status
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
    assert go_on(runs, tmp_path) == ["a"]
    assert (runs["a"].over, runs["a"].seconds) == ("ended", 3.0)
    assert (runs["b"].over, runs["b"].attempt, runs["b"].started) == (None, 2, 11)
    assert (runs["new"].attempt, runs["new"].started) == (0, 0)
    assert token_of(tmp_path) == token


def test_of_a_list_that_is_over_what_has_failed_is_tried_again_as_another(tmp_path: Path) -> None:
    jobs = [JOBS[0], JobStatus("b", "failed", attempt=2, reason="its worker failed")]
    write_status(ClusterStatus("s", os.getpid(), jobs, {}, over=True), tmp_path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "worker-3.log").touch()
    token, runs = token_of(tmp_path), _runs()
    assert go_on(runs, tmp_path) == ["a"]
    assert (runs["a"].over, runs["a"].seconds) == ("ended", 3.0)
    assert (runs["b"].over, runs["b"].attempt, runs["b"].started) == (None, 2, 4)
    assert runs["new"].over is None
    assert token_of(tmp_path) != token


def test_two_schedulers_do_not_carry_one_list_out(tmp_path: Path) -> None:
    write_status(ClusterStatus("s", os.getpid(), JOBS, {}), tmp_path)
    with pytest.raises(CompositionError, match="give another, or end it first"):
        go_on(_runs(), tmp_path)


@dataclass
class Untouched:
    """A backend on which nothing is to happen."""

    runs: dict[str, CarriedJob]
    health: dict[str, str] = field(default_factory=dict)
    agents: dict[str, int] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return all(run.over is not None for run in self.runs.values())

    def ready(self) -> bool:
        raise AssertionError

    observed = carry_out = close = ready


def test_where_all_has_ended_nothing_is_started_and_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [JobStatus(name, "ended", seconds=3.0, attempt=1) for name in ("a", "b", "new")]
    write_status(ClusterStatus("s", _ended_process(), jobs, {}, over=True), tmp_path)
    told: list[ClusterStatus] = []
    found = carry(Untouched(_runs()), Cluster("s", (ClusterHost("h", 1),)), CONFIG, tmp_path, told.append)  # type: ignore[arg-type]
    assert [(job.name, job.state, job.seconds) for job in found.jobs] == [(name, "ended", 3.0) for name in ("a", "b", "new")]
    assert read_status(tmp_path) == found
    assert found.over
    assert told == []
    said = capsys.readouterr().err
    assert said == f"polyrhythm: already ended in {tmp_path}: a, b and new. What has ended stays so; give another --out to train it anew.\n"
