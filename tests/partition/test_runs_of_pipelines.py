"""Laws of pipelines in runs on a mesh: delays, boundaries and dropout are those of the pipeline itself, and of one device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyrhythm as pr
from polyrhythm.partition.pipeline import (
    Activations,
    Bottleneck,
    DelayByDepth,
    DelayedPipeline,
    Delta,
    GivenStages,
    MeanLoss,
    Pipelined,
    Recompute,
    SameDelay,
    Subspace,
)
from polyrhythm.partition.place import Place
from polyrhythm.partition.tensor_parallel.dropout import DropByPlace

from .ranks import on_ranks

ROWS, STEPS, WIDTH = 12, 6, 16


def net() -> nn.Sequential:
    torch.manual_seed(5)
    narrow = Bottleneck(4).modules(WIDTH)
    return nn.Sequential(nn.Linear(6, WIDTH), nn.Tanh(), *narrow, nn.Linear(WIDTH, WIDTH), nn.Dropout(0.4), nn.Tanh(), nn.Linear(WIDTH, 3))


def batch(step: int) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Of a data set of two batches."""
    x = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(step % 2))
    return x, x[:, :3].sin(), tuple(range(step % 2 * ROWS, (step % 2 + 1) * ROWS))


def train(worker: pr.Worker) -> None:
    model = net()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
    rows = ROWS // worker.replicas
    mine = slice(worker.replica * rows, (worker.replica + 1) * rows)
    for step in worker.range(STEPS):
        x, y, ids = batch(step)
        worker.count(rows if worker.counts_samples else 0)
        optimizer.zero_grad()
        worker.train_step(x[mine], y[mine], ids=ids[mine])
        optimizer.step()


def directly(pipelined: Pipelined, ranks: int) -> dict[str, Tensor]:
    """The weights that ranks of a pipeline have by themselves."""

    def program(place: Place, rank: int) -> Any:
        pipeline = pipelined.local(net(), place, MeanLoss(F.mse_loss))
        optimizer = torch.optim.SGD(pipeline.module.parameters(), lr=0.1, momentum=0.5)
        for step in range(STEPS):
            pipeline.step(*batch(step))
            optimizer.step()
            optimizer.zero_grad()
        for _ in pipeline.remaining():
            optimizer.step()
            optimizer.zero_grad()
        return {name: parameter.detach() for name, parameter in pipeline.module.named_parameters()}

    return {name: value for each in on_ranks(program, pp=ranks) for name, value in each.items()}


PIPELINES = [
    Pipelined(micro_batches=3, division=GivenStages((3, 5)), boundary=Activations(4, 8)),
    Pipelined(micro_batches=2, division=GivenStages((2, 4, 2)), boundary=Delta(3, 8)),
    Pipelined(micro_batches=3, division=GivenStages((3, 2, 3)), boundary=Subspace(5)),
    Pipelined(micro_batches=2, division=GivenStages((3, 2, 3)), schedule=DelayedPipeline(SameDelay(1))),
    Pipelined(micro_batches=1, division=GivenStages((3, 2, 3)), schedule=DelayedPipeline(DelayByDepth(), look_ahead=0.5)),
    Pipelined(micro_batches=2, division=GivenStages((1, 7)), schedule=DelayedPipeline(), boundary=Activations(8, 8)),
]


@pytest.mark.parametrize("pipelined", PIPELINES)
def test_a_run_of_a_pipeline_has_the_weights_of_the_pipeline_itself(pipelined: Pipelined) -> None:
    assert isinstance(pipelined.division, GivenStages)
    ranks = len(pipelined.division.steps)
    run = pr.run(train, mesh=pr.Mesh(pp=ranks), cut=pr.Cut(pipeline=pipelined), on=pr.Simulator())
    expected = directly(pipelined, ranks)
    assert run.weights.keys() == expected.keys()
    for name, value in run.weights.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-6, atol=1e-6)
    assert run.summary.samples == STEPS * ROWS


@pytest.mark.parametrize("pipelined", PIPELINES[3:4])
def test_processes_give_the_same_bits(pipelined: Pipelined) -> None:
    runs = [pr.run(train, mesh=pr.Mesh(pp=3), cut=pr.Cut(pipeline=pipelined), on=on) for on in (pr.Simulator(), pr.Processes())]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256


def test_a_checkpoint_is_written_with_an_empty_pipeline_and_resumed_from(tmp_path: Path) -> None:
    cut = pr.Cut(pipeline=Pipelined(micro_batches=2, division=GivenStages((3, 2, 3)), schedule=DelayedPipeline(SameDelay(1))))
    seen: list[int] = []

    def saving(worker: pr.Worker) -> None:
        model = nn.Sequential(*net()[:5], nn.Identity(), *net()[6:])
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
        for step in worker.range(STEPS):
            optimizer.zero_grad()
            worker.train_step(*batch(step)[:2])
            worker.count(ROWS if worker.counts_samples else 0)
            optimizer.step()
            if step == 2:
                worker.save()
            seen.append(step)

    run = pr.run(saving, mesh=pr.Mesh(pp=3), cut=cut, on=pr.Simulator(), checkpoints=pr.Checkpoints(tmp_path))
    [kept] = tmp_path.glob("step-*")
    seen.clear()
    again = pr.run(saving, mesh=pr.Mesh(pp=3), cut=cut, on=pr.Simulator(), checkpoints=pr.Checkpoints(resume=kept))
    assert run.summary.weights_sha256 == again.summary.weights_sha256
    assert sorted(set(seen)) == [3, 4, 5]


MASKED = {"5": DropByPlace({0: ("dp",)})}


@pytest.mark.parametrize(
    ("mesh", "pipelined"),
    [
        (pr.Mesh(dp=2, pp=2), Pipelined(micro_batches=3)),
        (pr.Mesh(dp=3, pp=1), Pipelined(micro_batches=1, memory=Recompute())),
        (pr.Mesh(dp=1, pp=3), Pipelined(micro_batches=5, memory=Recompute())),
        (pr.Mesh(dp=2, pp=1), None),
    ],
)
def test_dropout_by_place_is_that_of_one_device(mesh: pr.Mesh, pipelined: Pipelined | None) -> None:
    run = pr.run(train, mesh=mesh, cut=pr.Cut(MASKED, pipeline=pipelined), on=pr.Simulator())
    whole = pr.run(train, mesh=pr.Mesh(dp=1), cut=pr.Cut(MASKED), on=pr.Simulator())
    for name, value in run.weights.items():
        torch.testing.assert_close(value, whole.weights[name], rtol=1e-5, atol=1e-5)


def test_replicas_of_a_pipeline_drop_differently() -> None:
    found: dict[int, Tensor] = {}

    def dropping(worker: pr.Worker) -> None:
        model = nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.5), nn.Linear(32, 32))
        with torch.no_grad():
            model[0].bias.fill_(1.0)  # type: ignore[operator,union-attr]
            model[0].weight.zero_()  # type: ignore[operator,union-attr]
            model[2].weight.copy_(torch.eye(32))  # type: ignore[operator,union-attr]
            model[2].bias.zero_()  # type: ignore[operator,union-attr]

        def loss(outputs: Tensor, targets: Tensor) -> Tensor:
            found[worker.rank] = outputs.detach()
            return outputs.mean()

        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=loss)
        worker.count(2)
        worker.train_step(torch.ones(2, 4), torch.ones(2, 4))
        optimizer.step()

    pr.run(dropping, mesh=pr.Mesh(dp=2, pp=2), cut=pr.Cut(pipeline=Pipelined(micro_batches=1)), on=pr.Simulator())
    one, other = found.values()
    assert not torch.equal(one == 0, other == 0)
