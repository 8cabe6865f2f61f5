"""Laws of unequal replicas: pipelines of different lengths train what one process trains."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import polyrhythm as pr
from polyrhythm.partition import Columns, GivenStages, GPipe, Pipelined, Recompute, Rows, ZeroBubble
from polyrhythm.partition.pipeline import PipelineTemplates

from .layouts import Net, mean_square
from .unequal_runs import MESHES, STEPS, Training, Unequal, alone, assert_equal, data

TRAININGS = [
    Training(),
    Training(tied=True),
    Training(adam=True, accumulated=2),
    Training(tied=True, adam=True, accumulated=2),
]


@pytest.mark.parametrize("train", TRAININGS, ids=str)
@pytest.mark.parametrize("name", MESHES)
def test_unequal_replicas_train_what_one_process_trains(name: str, train: Training) -> None:
    found, expected = MESHES[name].run(train), alone(train)
    assert_equal(found, expected)
    assert found.summary.samples == expected.summary.samples
    assert found.summary.final["loss"] == pytest.approx(expected.summary.final["loss"], rel=1e-6)


@pytest.mark.parametrize(
    "options", [{"schedule": GPipe()}, {"schedule": ZeroBubble(), "micro_batches": 3}, {"memory": Recompute()}], ids=str
)
def test_schedules_and_memory_change_nothing(options: dict[str, Any]) -> None:
    assert_equal(MESHES["1+2"].run(Training(tied=True), **options), alone(Training(tied=True)))


@pytest.mark.parametrize("strategy", ["local-sgd", "diloco", "powersgd", "hierarchical"])
def test_systems_train_what_they_train_among_whole_replicas(strategy: str) -> None:
    train = Training(tied=True)
    expected = pr.run(train, mesh=pr.Mesh(dp=2), strategy=strategy, on=pr.Simulator())
    assert_equal(MESHES["2+3"].run(train, strategy=strategy), expected)


def test_each_axis_of_replicas_may_have_its_own_system() -> None:
    train, strategy = Training(), {"site": "diloco", "dp": "allreduce"}
    expected = pr.run(train, mesh=pr.Mesh(site=2, dp=2), strategy=strategy, on=pr.Simulator())
    assert_equal(MESHES["two sites"].run(train, strategy=strategy), expected)


def test_stages_may_be_divided_over_another_axis_too() -> None:
    layers = {"layers.*.up": Columns("tp"), "layers.*.down": Rows("tp")}
    layout = Unequal(pr.Mesh(dp=2, pp=(1, 2), tp=2), ((6,), (2, 4)))
    assert_equal(layout.run(Training(tied=True), names=layers), alone(Training(tied=True)))


def test_gradients_are_clipped_by_the_norm_of_the_replica() -> None:
    train = Training(tied=True, clip=0.05)
    equal = pr.run(train, mesh=pr.Mesh(dp=2), strategy="local-sgd", on=pr.Simulator())
    assert_equal(MESHES["2+3"].run(train, strategy="local-sgd"), equal)


def normed() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()


def train_normed(worker: pr.Worker, built: bool) -> None:
    model = worker.build(normed) if built else normed()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=F.mse_loss)
    rows = torch.arange(48.0, dtype=torch.float64).view(48, 1) / 48 + torch.arange(5.0)
    batches = worker.batches(torch.utils.data.TensorDataset(rows, rows[:, :3].cos()), batch_size=6)
    for x, y in batches:
        optimizer.zero_grad()
        worker.train_step(x, y)
        optimizer.step()


@pytest.mark.parametrize("built", [False, True])
def test_buffers_are_averaged_part_by_part_and_replicas_draw_their_own_samples(built: bool) -> None:
    train = partial(train_normed, built=built)
    found = Unequal(pr.Mesh(dp=2, pp=(2, 3)), ((3, 3), (1, 3, 2))).run(train, micro_batches=1)
    expected = pr.run(train, mesh=pr.Mesh(dp=2), on=pr.Simulator())
    assert found.summary.samples == expected.summary.samples == 48
    assert_equal(found, expected, 1e-10)


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_the_pipelines_that_cover_any_number_of_workers_are_run(workers: int) -> None:
    mesh, division = PipelineTemplates((1.0, 2.0, 2.0, 2.0, 2.0, 1.0), least=1, most=3).covering_mesh(workers)
    assert mesh.workers == workers
    cut = pr.Cut(pipeline=Pipelined(micro_batches=2, division=division))
    assert_equal(
        pr.run(by_batches, mesh=mesh, cut=cut, on=pr.Simulator()),
        pr.run(by_batches, mesh=pr.Mesh(dp=dict(mesh.axes)["dp"]), on=pr.Simulator()),
    )


def by_batches(worker: pr.Worker) -> None:
    torch.manual_seed(3)
    model = Net(6, 7, False)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=0.2, loss=mean_square)
    x = data(0)
    for inputs, targets in worker.batches((x, x.sin()), batch_size=4):
        optimizer.zero_grad()
        worker.train_step(inputs, targets)
        optimizer.step()


def test_the_whole_model_is_evaluated_at_the_first_replica() -> None:
    def train(worker: pr.Worker) -> None:
        worker.evaluate(lambda model: {"error": mean_square(model(data(7)), data(7).sin())})
        Training(tied=True)(worker)

    assert MESHES["2+1"].run(train).summary.final["error"] == pytest.approx(alone(train).summary.final["error"], rel=1e-9)


def test_workers_know_their_replica_and_count_its_samples_once() -> None:
    known: dict[int, tuple[int, int, bool, bool, Any]] = {}

    def train(worker: pr.Worker) -> None:
        mean = worker.mean(float(worker.replica))
        known[worker.rank] = worker.replica, worker.replicas, worker.counts_samples, worker.has_result, mean
        Training()(worker)

    MESHES["1+2"].run(train)
    assert known == {0: (0, 2, True, True, 0.5), 1: (1, 2, True, False, 0.5), 2: (1, 2, False, False, 0.5)}


LAYOUTS = {name: (each.mesh, each.cut()) for name, each in MESHES.items()} | {
    "one": (pr.Mesh(dp=1), pr.Cut()),
    "2 x 2": (pr.Mesh(dp=2, pp=2), pr.Cut(pipeline=Pipelined(micro_batches=2, division=GivenStages((2, 4))))),
}


@pytest.mark.parametrize(
    ("first", "then"),
    [("2+3", "2+3"), ("2+3", "2 x 2"), ("2 x 2", "2+3"), ("one", "2 x 2"), ("one", "1+2"), ("1+2", "one"), ("1+2", "2+1")],
)
@pytest.mark.parametrize("train", [Training(saves=1), Training(tied=True, adam=True, saves=1)], ids=str)
def test_a_checkpoint_is_resumed_on_unequal_and_on_equal_replicas(first: str, then: str, train: Training, tmp_path: Path) -> None:
    runs = []
    for name, checkpoints in ((first, pr.Checkpoints(tmp_path)), (then, None)):
        mesh, cut = LAYOUTS[name]
        wanted = checkpoints or pr.Checkpoints(resume=next(tmp_path.glob("step-*")))
        runs.append(pr.run(train, mesh=mesh, cut=cut, on=pr.Simulator(), checkpoints=wanted))
    assert_equal(runs[1], runs[0])
    assert runs[1].summary.steps == STEPS


@pytest.mark.parametrize("name", ["2+1"])
def test_processes_give_the_bits_of_the_simulator(name: str) -> None:
    train = Training(tied=True, adam=True)
    runs = [MESHES[name].run(train, on) for on in (pr.Simulator(), pr.Processes())]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256
    assert_equal(runs[1], alone(train))


@pytest.mark.parametrize("strategy", ["local-sgd", "diloco"])
def test_processes_take_steps_of_their_own_in_each_replica(strategy: str) -> None:
    runs = [MESHES["2+1"].run(Training(tied=True), on, strategy) for on in (pr.Simulator(), pr.Processes())]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256


def test_what_one_replica_has_otherwise_is_found() -> None:
    def train(worker: pr.Worker) -> None:
        torch.manual_seed(3)
        model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + worker.replica))
        model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
        for _ in worker.range(2):
            optimizer.zero_grad()
            worker.count(2 if worker.counts_samples else 0)
            worker.train_step(torch.ones(2, 4), torch.zeros(2, 4))
            optimizer.step()

    with pytest.raises(pr.errors.CompositionError, match="lr"):
        MESHES["2+3"].run(train)
