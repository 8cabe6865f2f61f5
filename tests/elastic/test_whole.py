"""Evaluations, checkpoints, several models and parameters that are exchanged in several ways, while workers come and go.

Every step adds 1 to every weight, so that the number of steps is in the weights.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.errors import WorkerFailed
from polyrhythm.hardware.faults import Crash, Fault, Join, KillWhileWriting, Leave, Stall
from polyrhythm.systems import resolve

STEPS, WORKERS = 10, 4
CREW = pr.Crew(1, WORKERS, batch="global")
SEEDS = range(4)


class Several(nn.Module):
    """Rows and a layer; `forward` is such that each gradient is -1."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(5, 3)
        self.layer = nn.Linear(3, 2)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self) -> torch.Tensor:
        return -(self.rows(torch.arange(5)).sum() + self.layer.weight.sum() + self.layer.bias.sum())


def training(models: int = 1, evaluates: bool = False) -> Callable[[pr.Worker], None]:
    """`STEPS` steps of each of so many models."""

    def train(worker: pr.Worker) -> None:
        attached = [worker.attach(each, torch.optim.SGD(each.parameters(), lr=1.0)) for each in (Several() for _ in range(models))]
        if evaluates:
            worker.evaluate(lambda model: {"steps": model.layer.bias[0].item()})
        for _ in worker.range(STEPS):
            worker.count(1)
            for model, optimizer in attached:
                optimizer.zero_grad()
                model().backward()
                optimizer.step()

    return train


def schedule(seed: int, seconds: float) -> tuple[Fault, ...]:
    draw, found = random.Random(f"whole {seed}"), list[Fault]()
    for _ in range(draw.randint(1, 3)):
        at, who = draw.uniform(0, seconds), f"worker/{draw.randrange(WORKERS)}"
        stall = Stall(who, at=at, duration=draw.uniform(0.1, 0.4) * seconds)
        found.append(draw.choice((Crash(who, at=at), Crash(who, at=at), Leave(who, at=at), Join(at=at), stall)))
    return tuple(found)


def played(system: str, seed: int, train: Callable[[pr.Worker], None], **settings: Any) -> Attempt | None:
    """The run with the faults of the seed; None if its policy ends it."""
    strategy = resolve(system)
    whole = attempt(train, workers=WORKERS, strategy=strategy, on=pr.Simulator()).outcome.summary.virtual_seconds
    done = attempt(train, workers=CREW, strategy=strategy, on=pr.Simulator(faults=schedule(seed, whole)), **settings)
    if done.error is not None:
        assert isinstance(done.error, WorkerFailed)
        assert "the run was ending" in str(done.error)
        return None
    return done


def steps_of(done: Attempt) -> set[float]:
    """The numbers in the final weights."""
    return {round(number, 3) for tensor in done.outcome.weights.values() for number in tensor.flatten().tolist()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("system", ["allreduce", "horovod", "gossipgrad"])
def test_all_models_of_a_training_function_take_each_step_once(system: str, seed: int) -> None:
    done = played(system, seed, training(models=2))
    assert done is None or steps_of(done) == {float(STEPS)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("system", ["parallax", "poseidon", "byteps"])
def test_parameters_that_are_exchanged_in_another_way_take_each_step_once(system: str, seed: int) -> None:
    done = played(system, seed, training())
    assert done is None or steps_of(done) == {float(STEPS)}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("system", ["allreduce", "gossipgrad"])
def test_evaluations_are_of_whole_steps_in_order_and_the_last_is_of_the_final_weights(system: str, seed: int) -> None:
    done = played(system, seed, training(evaluates=True))
    if done is None:
        return
    found = [event.metrics["steps"] for event in done.outcome.events if isinstance(event, Evaluated)]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(STEPS)
    assert done.outcome.summary.final["steps"] == pytest.approx(STEPS)
    if system == "allreduce":
        assert all(number == pytest.approx(round(number), abs=1e-3) for number in found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("system", ["allreduce", "gossipgrad"])
def test_a_checkpoint_of_a_crew_that_has_changed_is_resumed_by_a_fixed_one(system: str, seed: int, tmp_path: Path) -> None:
    done = played(system, seed, training(), checkpoints=pr.Checkpoints(tmp_path, every=3))
    if done is None:
        return
    resumed = attempt(
        training(), workers=2, strategy=resolve(system), on=pr.Simulator(), checkpoints=pr.Checkpoints(tmp_path, every=100, resume=True)
    )
    assert resumed.error is None
    assert steps_of(resumed) == steps_of(done) == {float(STEPS)}


@pytest.mark.parametrize("checkpoint", [1, 2])
@pytest.mark.parametrize("system", ["allreduce", "horovod"])
def test_a_worker_that_is_lost_while_it_writes_leaves_the_checkpoint_before(system: str, checkpoint: int, tmp_path: Path) -> None:
    faults = (KillWhileWriting("worker/1", checkpoint),)
    wanted = pr.Checkpoints(tmp_path, every=3)
    done = attempt(training(), workers=CREW, strategy=resolve(system), on=pr.Simulator(faults=faults), checkpoints=wanted)
    assert done.error is None
    assert steps_of(done) == {float(STEPS)}
    again = pr.Checkpoints(tmp_path, every=100, resume=True)
    resumed = attempt(training(), workers=3, strategy=resolve(system), on=pr.Simulator(), checkpoints=again)
    assert resumed.error is None
    assert steps_of(resumed) == {float(STEPS)}
