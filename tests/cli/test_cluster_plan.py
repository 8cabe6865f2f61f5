"""`polyrhythm cluster plan`, and the forecasts that it makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyrhythm.cluster import Cluster, ClusterHost, WorkerSlot
from polyrhythm.hardware import devices
from polyrhythm.hardware.fleet import Fleet
from polyrhythm.hardware.network import Network
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.scheduling.training_forecasts import TrainingForecaster, TrainingGoal

from .conftest import Command

JOB = """
import torch
from torch import nn
from torch.utils.data import TensorDataset


def train(worker):
    torch.manual_seed(0)
    inputs = torch.randn(256, 64)
    data = TensorDataset(inputs, inputs[:, :1])
    model = nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    worker.attach(model, optimizer)
    worker.evaluate(lambda model: {"loss": float((model.weight - torch.eye(1, 64)).norm())})
    for _ in worker.epochs(20):
        for inputs, targets in worker.batches(data, batch_size=8):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
"""
SITE = """
name = "home"
network = "lan"
hosts = [{name = "laptop", count = 2, cores = 1, machine = "laptop"}, {name = "old", cores = 1, machine = "raspberry-pi-4"}]
"""
JOBS = """
jobs = [
    {name = "first", workers = 2, min_workers = 1, train = {job = "JOB", to = "loss<=0.2", systems = ["allreduce"]}},
    {name = "second", train = {job = "JOB", to = "loss<=0.2"}},
    {name = "large", cores = 2, train = {job = "JOB", to = "loss<=0.2"}},
]
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (file := tmp_path / "job.py").write_text(JOB)
    return file


def test_jobs_are_planned_with_what_a_lost_host_changes(polyrhythm: Command, tmp_path: Path, job: Path) -> None:
    (site := tmp_path / "site.toml").write_text(SITE)
    (jobs := tmp_path / "jobs.toml").write_text(JOBS.replace("JOB", str(job)))
    done = polyrhythm("cluster", "plan", site, jobs, "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert {each["job"] for each in found["jobs"]} == {"first", "second"}
    assert "too few cores" in found["refused"]["large"]
    assert found["is_optimal"]
    assert {each["host"] for each in found["losses"]} == {slot["host"] for each in found["jobs"] for slot in each["placement"]["slots"]}
    assert found["mean_completions"]["predicted"] <= min(found["mean_completions"].values()) + 1e-9


def test_jobs_without_a_target_are_refused(polyrhythm: Command, tmp_path: Path, job: Path) -> None:
    (site := tmp_path / "site.toml").write_text(SITE)
    (jobs := tmp_path / "jobs.toml").write_text(f'jobs = [{{name = "one", train = {{job = "{job}"}}}}]')
    assert "has no target" in polyrhythm("cluster", "plan", site, jobs).err


@pytest.mark.parametrize("machines", [("laptop", "raspberry-pi-4"), pytest.param(("laptop", "laptop"), marks=pytest.mark.long)])
def test_a_forecast_is_what_a_run_to_the_target_takes(job: Path, machines: tuple[str, str]) -> None:
    goal = TrainingGoal(str(job), "loss<=0.2", systems=("allreduce",))
    forecaster = TrainingForecaster({"one": goal}, timed=24)
    site = Cluster("two", tuple(ClusterHost(f"host-{n}", 1, machine=machine) for n, machine in enumerate(machines)))
    slots = [WorkerSlot(host.name) for host in site.hosts]
    found = forecaster.of(goal, "allreduce", slots, site)
    assert found is not None
    fleet, network = forecaster.machines(slots, site)
    run = forecaster.trained(goal, Candidate("allreduce", 2), fleet, network, 320)
    assert run.end is not None
    assert found.seconds == pytest.approx(run.end.seconds, rel=0.05)


def test_what_a_job_raises_is_told(polyrhythm: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def train(worker):\n    worker.nothing()\n")
    (site := tmp_path / "site.toml").write_text(SITE)
    (jobs := tmp_path / "jobs.toml").write_text(f'jobs = [{{name = "one", train = {{job = "{tmp_path / "bad.py"}", to = "loss<=1"}}}}]')
    assert "no attribute 'nothing'" in polyrhythm("cluster", "plan", site, jobs).err


def test_a_target_that_is_not_reached_has_no_forecast(job: Path) -> None:
    goal = TrainingGoal(str(job), "loss<=0.0000001")
    forecaster = TrainingForecaster({"one": goal}, steps=32)
    site = Cluster("two", (ClusterHost("a", 1), ClusterHost("b", 1)), network=Network.uniform("fast", "1 Gbit/s", "1 ms"))
    assert forecaster.of(goal, "allreduce", [WorkerSlot("a"), WorkerSlot("b")], site) is None
    assert forecaster.machines([WorkerSlot("a")], site)[0] == Fleet((devices.DEVICES["cpu-core"],))
