"""`polyrhythm cluster run` trains jobs on hosts that are parts of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SITE = """
name = "home"
[[hosts]]
name = "laptop"
count = 2
cores = 2
"""
TRAIN = """
import time
import torch

def train(worker, epochs: int = 2, pause: float = 0.0):
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Linear(4, 1)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in worker.epochs(epochs):
        for (part,) in worker.batches((x,), batch_size=4):
            optimizer.zero_grad()
            model(part).square().mean().backward()
            optimizer.step()
            time.sleep(pause)
"""


def _command(directory: Path, jobs: str) -> list[str]:
    (directory / "site.toml").write_text(SITE)
    (directory / "train.py").write_text(TRAIN)
    (directory / "jobs.toml").write_text(jobs)
    return [sys.executable, "-m", "polyrhythm", "cluster", "run", "site.toml", "jobs.toml", "--out", "runs", "--json"]


def _status(directory: Path) -> dict[str, object]:
    path = directory / "runs" / "cluster.json"
    return dict(json.loads(path.read_text())) if path.exists() else {"jobs": [], "agents": {}}


def test_a_job_whose_file_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    jobs = '[[jobs]]\nname = "wrong"\n[jobs.train]\njob = "trian.py"\n'
    done = subprocess.run(_command(tmp_path, jobs), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 2
    assert done.stderr == "polyrhythm: The job 'wrong' cannot run: There is no file trian.py. Did you mean 'train.py'?\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_jobs_wait_for_each_other_end_and_fail(tmp_path: Path) -> None:
    jobs = "".join(
        f'[[jobs]]\nname = "{name}"\nworkers = {workers}\n[jobs.train]\njob = "{job}"\n'
        for name, workers, job in (("first", 4, "train.py"), ("second", 2, "train.py"), ("wrong", 1, "train.py:nothing"))
    )
    done = subprocess.run(_command(tmp_path, jobs), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stderr
    found = {job["name"]: job for job in json.loads(done.stdout)["jobs"]}
    assert {name: job["state"] for name, job in found.items()} == {"first": "ended", "second": "ended", "wrong": "failed"}
    assert "train.py defines no nothing" in found["wrong"]["reason"]
    assert "second waits: needs 2 workers in one cluster" in done.stderr
    assert (tmp_path / "runs" / "first" / "attempt-1").is_dir()


@pytest.mark.long
def test_a_crew_goes_on_where_a_host_is_lost(tmp_path: Path) -> None:
    jobs = '[[jobs]]\nname = "crew"\nworkers = 4\nmin_workers = 2\n[jobs.train]\njob = "train.py"\nset = {epochs = 6, pause = 0.15}\n'
    with subprocess.Popen(_command(tmp_path, jobs), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 120
        log = tmp_path / "runs" / "crew"
        while not list(log.glob("attempt-1/*/*/events.jsonl")):  # it trains
            assert time.monotonic() < deadline
            time.sleep(0.2)
        time.sleep(3.0)
        os.kill(_status(tmp_path)["agents"]["laptop-2"], signal.SIGKILL)  # type: ignore[index]
        printed, said = running.communicate(timeout=240)
    assert running.returncode == 0, said
    assert json.loads(printed)["jobs"][0]["state"] == "ended"
    assert "laptop-2 is dead" in said
    assert "crew runs on laptop-1 (2)\n" in said
    assert not (log / "attempt-2").exists()  # nothing began anew
