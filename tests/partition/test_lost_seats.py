"""Laws of pipelines that lose seats while they run: no sample is lost or used twice, and the weights are those without a loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import CrewChanged
from polyrhythm.errors import CompositionError, StateLostError
from polyrhythm.partition.pipeline import Activations, AroundLost, ByMeasuredSpeed, BySpeed, GPipe, Pipelined, RandomRoutes, Recompute

from .pipelines import Language, mean, sample
from .ranks import close

STEPS, ROWS, MICRO, LAYERS = 8, 6, 3, 4


def train(worker: pr.Worker) -> None:
    model: nn.Module = Language(LAYERS, False)
    model.layers[0] = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(worker.rank)  # everybody begins with the weights of the first
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
    model, optimizer = worker.attach(model, optimizer, loss=mean)
    for step in worker.range(STEPS):
        worker.count(ROWS if worker.counts_samples else 0)
        optimizer.zero_grad()
        loss = worker.train_step(*sample(10 * step + worker.replica, ROWS))
        optimizer.step()
        worker.report(loss=loss)


def run_of(on: Any, crew: Any = None, routes: Any = None, **sizes: int) -> pr.Run:
    cut = pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=routes or AroundLost()))
    return pr.run(train, mesh=pr.Mesh(**sizes), workers=crew, cut=cut, on=on)


def simulated(*faults: Any) -> pr.Simulator:
    return pr.Simulator(network="lan", devices=pr.Device("core", 1e6, 0.0), faults=faults)


MESH = {"dp": 2, "pp": 2}


def test_a_crew_that_loses_nobody_has_the_weights_of_a_fixed_one() -> None:
    expected = run_of(simulated(), **MESH)
    found = run_of(simulated(), pr.Crew(2, 4, replace=False), **MESH)
    for name, value in found.weights.items():
        close(value, expected.weights[name])


@pytest.mark.parametrize("part", [0.03, 0.2, 0.41, 0.62, 0.97])
@pytest.mark.parametrize("lost", ["worker/0", "worker/1", "worker/3"])
def test_the_others_go_on_with_the_weights_of_a_run_without_a_loss(lost: str, part: float) -> None:
    expected = run_of(simulated(), **MESH)
    seconds = expected.summary.virtual_seconds
    found = run_of(simulated(pr.hardware.Crash(lost, part * seconds)), pr.Crew(2, 4, replace=False), **MESH)
    assert [change.left for change in found.outcome.events if isinstance(change, CrewChanged)] == [(lost,)]
    for name, value in found.weights.items():
        close(value, expected.weights[name])


def crash(*lost: tuple[str, float]) -> tuple[Any, ...]:
    return tuple(pr.hardware.Crash(name, seconds) for name, seconds in lost)


WAYS = {
    "at random": {"routes": RandomRoutes(3)},
    "by speed": {"routes": BySpeed(((1.0, 2.0, 1.0), (1.0, 1.0, 0.5)))},
    "recomputed": {"memory": Recompute(), "schedule": GPipe()},
    "rounded": {"boundary": Activations(4, 8)},
}


@pytest.mark.parametrize("way", WAYS)
def test_several_may_be_lost_whatever_the_routes(way: str) -> None:
    """Of three replicas of two stages one seat of each stage, and one more of a replica that has another."""
    mesh, cut = pr.Mesh(pp=2, dp=3), pr.Cut(pipeline=Pipelined(**{"micro_batches": MICRO, "routes": AroundLost(), **WAYS[way]}))
    expected = pr.run(train, mesh=mesh, cut=cut, on=simulated())
    ends = expected.summary.virtual_seconds
    faults = crash(("worker/0", 0.2 * ends), ("worker/4", 0.3 * ends), ("worker/2", 0.7 * ends))
    found = pr.run(train, mesh=mesh, workers=pr.Crew(2, 6, replace=False), cut=cut, on=simulated(*faults))
    assert found.summary.steps == expected.summary.steps
    for name, value in found.weights.items():
        close(value, expected.weights[name])


def test_two_may_be_lost_at_once() -> None:
    mesh, cut = pr.Mesh(pp=2, dp=3), pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=AroundLost()))
    expected = pr.run(train, mesh=mesh, cut=cut, on=simulated())
    moment = 0.5 * expected.summary.virtual_seconds
    on = simulated(*crash(("worker/1", moment), ("worker/5", moment * 1.001)))
    found = pr.run(train, mesh=mesh, workers=pr.Crew(2, 6, replace=False), cut=cut, on=on)
    for name, value in found.weights.items():
        close(value, expected.weights[name])


def test_a_stage_or_a_replica_without_a_seat_ends_the_run_with_a_remedy() -> None:
    for others, what in ((("worker/1", "worker/3"), "stage 1 are lost"), (("worker/0", "worker/1"), "replica 0, with the samples")):
        on = simulated(*crash(*((name, 0.02 + 0.01 * number) for number, name in enumerate(others))))
        with pytest.raises(StateLostError, match=what):
            run_of(on, pr.Crew(1, 4, replace=False), **MESH)


def test_a_loss_while_the_model_is_attached_ends_the_run_with_a_remedy() -> None:
    with pytest.raises(StateLostError, match="worker/3 was lost before all workers had the weights"):
        run_of(simulated(*crash(("worker/3", 1e-5))), pr.Crew(2, 4, replace=False), **MESH)


@pytest.mark.parametrize("step", [1, 4])
def test_processes_go_on_too(step: int) -> None:
    """A real process is killed in its step; the others have the weights of a run in virtual time without a loss."""
    expected = run_of(simulated(), **MESH)
    faults = (pr.hardware.Crash("worker/3", step=step),)
    found = run_of(pr.Processes(faults=faults, timeout=30.0), pr.Crew(2, 4, replace=False), **MESH)
    assert [change.left for change in found.outcome.events if isinstance(change, CrewChanged)] == [("worker/3",)]
    for name, value in found.weights.items():
        close(value, expected.weights[name])


@pytest.mark.long
@pytest.mark.parametrize("lost", [0, 1, 2, 3])
@pytest.mark.parametrize("seconds", [0.4, 0.8, 1.3])
def test_processes_may_be_killed_at_any_time(lost: int, seconds: float) -> None:
    expected = run_of(simulated(), **MESH)
    faults = (pr.hardware.Crash(f"worker/{lost}", seconds),)
    found = run_of(pr.Processes(faults=faults, timeout=30.0), pr.Crew(2, 4, replace=False), **MESH)
    for name, value in found.weights.items():
        close(value, expected.weights[name])


REFUSED: dict[str, Any] = {
    "let others do what a lost one did": {"cut": pr.Cut(pipeline=Pipelined())},
    "have pp and dp alone": {"mesh": pr.Mesh(site=2, dp=2, pp=2), "workers": pr.Crew(2, 8, replace=False)},
    "nobody joins": {"workers": pr.Crew(2, 4)},
    "do not wait for a trial of speeds": {"cut": pr.Cut(pipeline=Pipelined(routes=ByMeasuredSpeed()))},
    "use allreduce with a crew that changes": {"strategy": "diloco"},
    "share each step: use allreduce": {"strategy": {"dp": "gossipgrad"}},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_lose_a_seat_says_so(reason: str) -> None:
    given = {
        "mesh": pr.Mesh(dp=2, pp=2),
        "workers": pr.Crew(2, 4, replace=False),
        "cut": pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=AroundLost())),
    }
    with pytest.raises(CompositionError, match=reason):
        pr.run(train, on=simulated(), **(given | REFUSED[reason]))


def test_tied_weights_and_clipping_are_refused() -> None:
    def tied(worker: pr.Worker) -> None:
        model: nn.Module = Language(LAYERS, True)
        worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.3), loss=mean)

    def clipped(worker: pr.Worker) -> None:
        model: nn.Module = Language(LAYERS, False)
        worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.3), loss=mean)
        worker.train_step(*sample(worker.replica, ROWS))
        worker.clip_gradients(1.0)

    cut = pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=AroundLost()))
    for program, reason in ((tied, "one weight at several stages"), (clipped, "may be lost meanwhile")):
        with pytest.raises(pr.PolyrhythmError, match=reason):
            pr.run(program, mesh=pr.Mesh(dp=2, pp=2), workers=pr.Crew(2, 4, replace=False), cut=cut, on=simulated())


def test_means_after_a_loss_and_gradients_that_are_not_cleared_are_refused() -> None:
    def averaged(worker: pr.Worker) -> None:
        model: nn.Module = Language(LAYERS, False)
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
        model, optimizer = worker.attach(model, optimizer, loss=mean)
        for _ in worker.range(STEPS):
            optimizer.zero_grad()
            worker.count(1)
            worker.train_step(*sample(worker.replica, ROWS))
            optimizer.step()
        worker.mean(1.0)

    def kept(worker: pr.Worker) -> None:
        model: nn.Module = Language(LAYERS, False)
        worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.3), loss=mean)
        for _ in range(2):
            worker.train_step(*sample(worker.replica, ROWS))

    cut = pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=AroundLost()))
    for program, reason in ((averaged, "with worker/1 lost it would be another"), (kept, "call optimizer.zero_grad")):
        on = simulated(*crash(("worker/1", 0.01)))
        with pytest.raises(pr.PolyrhythmError, match=reason):
            pr.run(program, mesh=pr.Mesh(dp=2, pp=2), workers=pr.Crew(2, 4, replace=False), cut=cut, on=on)


@pytest.mark.parametrize("name", ["worker/0", "worker/3"])
def test_a_worker_may_leave_with_notice(name: str) -> None:
    expected = run_of(simulated(), **MESH)
    found = run_of(simulated(pr.hardware.Leave(name, step=3)), pr.Crew(2, 4, replace=False), **MESH)
    assert found.summary.steps == STEPS
    for each, value in found.weights.items():
        close(value, expected.weights[each])


@pytest.mark.parametrize("crew", [None, pr.Crew(2, 4, replace=False)], ids=["fixed", "changing"])
def test_a_checkpoint_of_those_left_is_resumed_by_all(crew: Any, tmp_path: Path) -> None:
    """The part of a lost worker is in the files of others."""
    expected = run_of(simulated(), **MESH)
    mesh, cut = pr.Mesh(**MESH), pr.Cut(pipeline=Pipelined(micro_batches=MICRO, routes=AroundLost()))
    on = simulated(*crash(("worker/1", 0.3 * expected.summary.virtual_seconds)))
    kept = pr.Checkpoints(tmp_path, every=3)
    pr.run(train, mesh=mesh, workers=pr.Crew(2, 4, replace=False), cut=cut, on=on, checkpoints=kept)
    again = pr.Checkpoints(tmp_path, every=3, resume=True)
    found = pr.run(train, mesh=mesh, workers=crew, cut=cut, on=simulated(), checkpoints=again)
    for name, value in found.weights.items():
        close(value, expected.weights[name])
