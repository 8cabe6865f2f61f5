"""`polyrhythm compare` and `simulate` on scripts of torch.distributed: systems on the axis where they join, networks, ranks, targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

JOINS = """
import argparse, logging, torch, torch.distributed as dist
import polyrhythm as pr

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
lr = parser.parse_args().lr
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
worker = pr.join(group=dist.group.WORLD)
model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=lr))
for step in range(8):
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
    worker.count(16)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {step:3d} | loss: {loss.item():.4f} | lr {lr}")
"""

PLAIN = """
import torch, torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.fixture
def joins(job: Any) -> Path:
    return Path(job(JOINS))


def test_systems_of_the_joined_axis_are_compared_to_a_printed_target(polyrhythm: Any, joins: Path, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    command = ("compare", joins, "--workers", 2, "--network", "slow", "--systems", "allreduce,local-sgd", "--option", "period=4")
    result = polyrhythm(*command, "--to", "loss=2", "--out", out, "--json")
    assert result.code == 0, result.err
    allreduce, local = json.loads(result.out)["runs"]
    assert (allreduce["system"], local["system"]) == ("allreduce", "local-sgd")
    assert allreduce["steps"] == local["steps"] == 8
    assert local["bytes_sent"] < allreduce["bytes_sent"]
    assert 0 < allreduce["final"]["loss"] < 2
    again = polyrhythm(*command, "--to", "loss=2", "--out", out)
    assert "holds 2 of 2 runs" in again.err
    assert "all ranks waits" in again.out


def test_settings_are_options_of_the_script(polyrhythm: Any, joins: Path) -> None:
    command = ("compare", joins, "--workers", 2, "--systems", "local-sgd", "--set", "lr=0.01", "--to", "lr<=0.01", "--json")
    [run] = json.loads(polyrhythm(*command).out)["runs"]
    assert run["final"] == {"lr": 0.01}


def test_a_script_as_it_is_is_compared_over_networks_ranks_and_devices(polyrhythm: Any, job: Any) -> None:
    result = polyrhythm("compare", job(PLAIN), "--workers", "2,3", "--network", "lan,slow", "--device", "cpu-core,a100", "--json")
    compared = json.loads(result.out)
    assert [(run["workers"], run["network"]) for run in compared["runs"]] == [
        (n, each) for each in ("lan", "lan", "slow", "slow") for n in (2, 3)
    ]
    assert len(set(compared["places"])) == 8


def test_a_plan_finds_the_system_and_the_ranks_that_reach_a_printed_target(polyrhythm: Any, joins: Path) -> None:
    command = (
        "plan",
        joins,
        "--to",
        "loss=4",
        "--workers",
        "2,3",
        "--network",
        "slow",
        "--systems",
        "allreduce,local-sgd",
        "--jobs",
        1,
        "--json",
    )
    result = polyrhythm(*command)
    assert result.code == 0, result.err
    plan = json.loads(result.out)
    best, *others = plan["choices"]
    assert best["system"] == "local-sgd"
    assert all(best["seconds"] <= each["seconds"] for each in others)
    assert best["torchrun"].startswith("POLYRHYTHM_SYSTEM=")
    assert any(name.startswith("allreduce") for name in plan["others"]) or any(each["system"] == "allreduce" for each in others)


def test_a_plan_without_a_way_to_the_target_says_why(polyrhythm: Any, joins: Path) -> None:
    result = polyrhythm("plan", joins, "--to", "loss=0.000001", "--workers", "2", "--systems", "local-sgd", "--jobs", 1)
    assert result.code == 1
    assert "not local-sgd × 2: it ended before, the best was" in result.out


@pytest.mark.parametrize(("option", "words"), [("--memory=2GB", "--memory is for jobs"), ("--verify=2", "--verify 2 times steps of jobs")])
def test_options_that_a_script_has_no_use_for_are_refused(polyrhythm: Any, joins: Path, option: str, words: str) -> None:
    result = polyrhythm("plan", joins, "--to", "loss=1", option)
    assert result.code == 2
    assert words in result.err


def test_a_script_on_real_processes_is_refused(polyrhythm: Any, joins: Path) -> None:
    result = polyrhythm("compare", joins, "--on", "processes")
    assert result.code == 2
    assert "runs in virtual time" in result.err


def test_run_says_what_runs_a_script(polyrhythm: Any, joins: Path) -> None:
    result = polyrhythm("run", joins)
    assert result.code == 2
    assert "`polyrhythm simulate` runs it in virtual time" in result.err


@pytest.mark.parametrize(("command", "flag"), [("simulate", "--system NAME"), ("compare", "--systems")])
def test_options_of_no_system_are_refused(polyrhythm: Any, joins: Path, command: str, flag: str) -> None:
    options = ("--workers", 2, "--option", "slack=3")
    result = polyrhythm(*((command, *options, joins) if command == "simulate" else (command, joins, *options)))
    assert result.code == 2
    assert f"--option slack is an option of a system, and none was given: give {flag}." in " ".join(result.err.split())
