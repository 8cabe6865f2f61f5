"""`polyrhythm cluster run --through slurm` trains jobs by batch jobs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nodes_of_slurm import NODES, FakeSlurm
from typer.testing import CliRunner

from polyrhythm.tools.cli.app import app

TRAIN = """
import torch

def train(worker, epochs: int = 2):
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Linear(4, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in worker.epochs(epochs):
        for (part,) in worker.batches((x,), batch_size=4):
            optimizer.zero_grad()
            model(part).square().mean().backward()
            optimizer.step()
"""
JOBS = """
[[jobs]]
name = "gang"
workers = 3
[jobs.train]
job = "train.py"

[[jobs]]
name = "crew"
workers = 2
min_workers = 1
[jobs.train]
job = "train.py"
"""


def _command(folder: Path, *more: str) -> list[str]:
    (folder / "site.json").write_text(json.dumps({"name": "s", "hosts": [{"name": name, "cores": 2} for name in NODES]}))
    (folder / "train.py").write_text(TRAIN)
    (folder / "jobs.toml").write_text(JOBS)
    return [sys.executable, "-m", "polyrhythm", "cluster", "run", "site.json", "jobs.toml", "--out", "runs", "--json", *more]


@pytest.mark.long
def test_a_gang_and_a_crew_are_trained(slurm: FakeSlurm, tmp_path: Path) -> None:
    command = _command(tmp_path, "--through", "slurm", "--engine", "options=--time=10")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    logs = "".join(log.read_text() for log in tmp_path.glob("runs/*/worker-*.log"))
    assert done.returncode == 0, done.stderr + logs
    assert {job["name"]: job["state"] for job in json.loads(done.stdout)["jobs"]} == {"gang": "ended", "crew": "ended"}
    assert all("#SBATCH --time=10\n" in script for script in slurm.scripts())
    assert len(slurm.scripts()) == 3


def test_options_that_do_not_fit_the_engine_are_refused(slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _command(tmp_path)
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (("--through", "slrm"), "Did you mean 'slurm'?"),
        (("--through", "slurm", "--reach", "ssh {host}"), "--reach is for hosts of one's own"),
        (("--engine", "restarts=1"), "--engine restarts=1 is for an engine, such as slurm"),
        (("--through", "ray", "--engine", "speed=1"), "speed"),
        (("--through", "ray"), "install it, with pip install 'polyrhythm[ray]'"),
        (("--through", "torchrun", "--engine", "restarts=1"), "is for an engine"),
        (("--through", "kubernetes"), "kubernetes needs the option image"),
        (("--through", "kubernetes", "--policy", "predicted"), "has no target"),
        (("--through", "slurm", "--engine", "speed=1"), "speed"),
    ):
        result = CliRunner().invoke(
            app, ["cluster", "run", str(tmp_path / "site.json"), str(tmp_path / "jobs.toml"), "--out", str(tmp_path / "runs"), *words]
        )
        assert (result.exit_code, said in result.output) == (2, True), result.output
    assert slurm.scripts() == []


@pytest.mark.long
def test_batch_jobs_of_a_scheduler_that_was_killed_are_taken_over(slurm: FakeSlurm, tmp_path: Path) -> None:
    command = [*_command(tmp_path, "--through", "slurm"), "--beat", "0.5"]
    (tmp_path / "jobs.toml").write_text(JOBS.replace('job = "train.py"', 'job = "train.py"\nset = {epochs = 30}'))
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        deadline = time.monotonic() + 120
        while len(list(tmp_path.glob("runs/*/attempt-1/**/events.jsonl"))) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        first.kill()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    logs = "".join(log.read_text() for log in tmp_path.glob("runs/*/worker-*.log"))
    assert done.returncode == 0, done.stderr + logs
    assert {job["state"] for job in json.loads(done.stdout)["jobs"]} == {"ended"}
    assert len(slurm.scripts()) == 3  # nothing was submitted twice
    assert not list(tmp_path.glob("runs/*/attempt-2"))
    assert not list(tmp_path.glob("runs/*/*.batch"))
