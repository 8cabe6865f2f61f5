"""SLURM for real: two nodes on this host, whose names do not resolve."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import laws
import pytest
import slurm_cluster

import polyrhythm as pr

JOB = """
import os, signal, sys
from pathlib import Path
import laws

train = laws.training(str(Path(__file__).parent), at={at}, deed="die")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """SLURM, found by its commands."""
    with slurm_cluster.slurm(tmp_path_factory.mktemp("slurm")) as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def on(cluster: None) -> pr.launchers.Slurm:
    """Each worker on a node of its own."""
    return pr.launchers.Slurm(options=("-N2",), driver="127.0.0.1")


def test_steps_have_the_bits_of_processes(on: pr.launchers.Slurm) -> None:
    laws.has_the_bits_of_processes(on)


@pytest.mark.parametrize("strategy", ["ssp", "gossipgrad", "diloco"])
def test_systems_whose_workers_do_not_keep_time_run(on: pr.launchers.Slurm, tmp_path: Path, strategy: str) -> None:
    laws.runs(on, strategy, tmp_path / "run")


def test_the_run_continues_after_a_task_was_killed(on: pr.launchers.Slurm, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    laws.continues_after_a_loss(on, tmp_path, capfd)


def test_a_crew_replaces_a_lost_worker(on: pr.launchers.Slurm, tmp_path: Path) -> None:
    laws.a_crew_replaces_a_lost_worker(on, tmp_path, workers=2)


def test_the_users_error_is_named(on: pr.launchers.Slurm, tmp_path: Path) -> None:
    laws.names_the_users_error(on, tmp_path)


def test_tasks_of_srun_that_join_meet_at_the_address_of_the_first_node(cluster: None, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "polyrhythm", "join", "digits-mlp", "--set", "epochs=1", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "MASTER_ADDR"}
    done = subprocess.run(["srun", "-N2", "-n2", *command], capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["workers"] == 2


def test_a_batch_job_in_which_a_worker_is_killed_ends_with_its_record(cluster: None, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB.format(at=27))
    kept = ["--checkpoint", str(tmp_path / "checkpoints"), "--every", "10", "--seed", "3", "--out", str(tmp_path / "run")]
    options = ["--engine", f"options=-N2 --output={tmp_path}/out.txt --chdir={tmp_path}"]
    command = [sys.executable, "-m", "polyrhythm", "launch", str(tmp_path / "job.py"), "--on", "slurm", *kept, *options]
    path = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    number = done.stdout.split()[-1]
    assert _ended(number) == "COMPLETED", (tmp_path / "out.txt").read_text()
    message = (tmp_path / "out.txt").read_text()
    assert (tmp_path / "done").exists()
    assert "task 1: Killed" in message
    assert "started again (1 of 3)" in message
    record = json.loads((tmp_path / "run" / "worker-0" / "run.json").read_bytes())
    assert record["summary"]["weights_sha256"] == laws.expected().summary.weights_sha256


def _ended(number: str) -> str:
    deadline = time.monotonic() + 300
    while True:
        shown = subprocess.run(["scontrol", "show", "job", number], capture_output=True, text=True, check=True).stdout
        state = shown.partition("JobState=")[2].split()[0]
        if state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
            return state
        assert time.monotonic() < deadline, shown
        time.sleep(0.5)
