"""Actors learn under every kind of system, on real processes as in virtual time, and continue from a checkpoint in mid-episode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import polyrhythm as pr
from polyrhythm.errors import WorkloadError
from polyrhythm.workloads import ChainA3c, ChainDqn, ChainQ
from polyrhythm.workloads.actors import SharedRmsprop, WithStatistics
from polyrhythm.workloads.actors.a3c import CartPoleA3c
from polyrhythm.workloads.actors.dqn import CartPoleDqn, exploration

STEPS = pr.hardware.Profile("measured", (1e-3,))
JOBS = [ChainA3c(frames=4_000), ChainDqn(frames=5_000), ChainQ(frames=5_000)]
SYSTEMS = ["hogwild", "downpour", "ssp", "allreduce"]
each_job = pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("job", JOBS[:2], ids=lambda job: job.name)
def test_one_worker_comes_to_nine_tenths_of_the_best_value(job: ChainA3c | ChainDqn, seed: int) -> None:
    assert pr.run(job, workers=1, strategy="single", on=pr.Simulator(devices=STEPS), seed=seed).final["score"] >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_four_actors_learn_one_policy_by_any_system(system: str) -> None:
    assert pr.run(JOBS[0], workers=4, strategy=system, on=pr.Simulator(devices=STEPS), seed=1).final["score"] >= 0.9


@pytest.mark.long
@pytest.mark.parametrize(("job", "system", "workers"), [(CartPoleA3c(), "hogwild", 4), (CartPoleDqn(), "single", 1)], ids=["a3c", "dqn"])
def test_cart_pole_is_solved(job: CartPoleA3c | CartPoleDqn, system: str, workers: int) -> None:
    assert pr.run(job, workers=workers, strategy=system, on=pr.Simulator(devices=STEPS), seed=0).final["score"] >= 475


def frames_of(job: ChainA3c | ChainDqn | ChainQ, system: str, workers: int) -> None:
    run = pr.run(replace(job, frames=10 * workers), workers=workers, strategy=system, on=pr.Simulator(devices=STEPS))
    assert (run.summary.samples, run.summary.steps) == (10 * workers, 2)
    assert 0 < run.final["score"] <= 1


@each_job
@pytest.mark.parametrize("system", SYSTEMS)
def test_three_actors_run_and_frames_are_counted(job: ChainA3c | ChainDqn | ChainQ, system: str) -> None:
    frames_of(job, system, 3)


@pytest.mark.long
@each_job
@pytest.mark.parametrize("system", SYSTEMS)
def test_sixteen_actors_run_and_frames_are_counted(job: ChainA3c | ChainDqn | ChainQ, system: str) -> None:
    frames_of(job, system, 16)


@pytest.mark.parametrize("settings", [{"annealed": 1.5}, {"batch_size": 10, "courses": 4}, {"scale": 0.0}])
@pytest.mark.parametrize("kind", [ChainA3c, ChainDqn])
def test_settings_that_cannot_be_are_refused(kind: type[ChainA3c | ChainDqn], settings: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError, match=next(iter(settings))):
        kind(**settings)


@pytest.mark.long
@each_job
@pytest.mark.parametrize(("system", "workers"), [("hogwild", 4), ("downpour", 2), ("allreduce", 3)])
def test_actors_run_on_real_processes(job: ChainA3c | ChainDqn | ChainQ, system: str, workers: int) -> None:
    run = pr.run(replace(job, frames=60 * workers), workers=workers, strategy=system, on=pr.Processes())
    assert run.summary.samples == 60 * workers
    assert 0 < run.final["score"] <= 1


@pytest.mark.parametrize(
    "job", [ChainA3c(frames=80), ChainA3c(frames=96, batch_size=6, courses=3), ChainDqn(frames=80), ChainDqn(frames=80, courses=5)]
)
def test_a_resumed_run_continues_in_mid_episode(job: ChainA3c | ChainDqn, tmp_path: Path) -> None:
    on = pr.Simulator(devices=STEPS)
    whole = pr.run(job, workers=2, strategy="allreduce", on=on, checkpoints=pr.Checkpoints(tmp_path, every=3))
    again = pr.run(job, workers=2, strategy="allreduce", on=on, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000006"))
    assert again.summary.weights_sha256 == whole.summary.weights_sha256


def test_no_two_workers_explore_alike() -> None:
    for workers in (1, 2, 4, 16):
        shares = [exploration(rank, workers) for rank in range(workers)]
        assert len(set(shares)) == workers
        assert all(0 < share < 0.5 for share in shares)


def test_shared_rmsprop_is_the_papers_formula() -> None:
    model = WithStatistics(torch.nn.Linear(1, 1, bias=False))
    optimizer = SharedRmsprop(model, lr=0.5, alpha=0.75, eps=0.25)
    weight = model.model.weight.item()
    mean = 0.0
    for gradient in (2.0, -1.0):
        model.model.weight.grad = torch.tensor([[gradient]])
        optimizer.step()
        mean = 0.75 * mean + 0.25 * gradient**2
        weight -= 0.5 * gradient / (mean + 0.25) ** 0.5
        assert abs(model.statistics[0].item() - mean) < 1e-6
        assert abs(model.model.weight.item() - weight) < 1e-6


def constant(worker: Any) -> None:
    """Five steps on a gradient of one."""
    model = WithStatistics(torch.nn.Linear(1, 1, bias=False))
    optimizer: torch.optim.Optimizer = SharedRmsprop(model, alpha=0.9)
    worker.attach(model, optimizer)
    for _ in worker.range(5):
        optimizer.zero_grad()
        worker.count(1)
        model(torch.ones(1, 1)).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_in_shared_memory_have_one_mean_of_squared_gradients(workers: int) -> None:
    run = pr.run(constant, workers=workers, strategy="hogwild", on=pr.Simulator(devices=STEPS))
    assert abs(run.weights["statistics.0"].item() - (1 - 0.9 ** (5 * workers))) < 1e-6
