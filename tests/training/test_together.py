"""Barriers, means and words for the user's own use, in both runtimes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from toy import network

from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.processes import Processes
from polyrhythm.simulator import Simulator
from polyrhythm.training.run import run

from .scenes import go, sgd

RUNTIMES = {"simulator": Simulator(network="slow"), "processes": Processes()}
each_runtime = pytest.mark.parametrize("on", RUNTIMES.values(), ids=RUNTIMES)


def speaks(worker: Any) -> None:
    model = network()
    worker.attach(model, sgd(model))
    worker.barrier()
    rank = worker.rank
    assert worker.mean(rank) == (worker.workers - 1) / 2
    mean = worker.mean(torch.full((2, 3), float(rank), dtype=torch.float64))
    assert torch.equal(mean, torch.full((2, 3), (worker.workers - 1) / 2, dtype=torch.float64))
    assert worker.any(rank == worker.workers - 1) is True
    assert worker.any(False) is False
    assert worker.broadcast({"lr": 0.1 + rank, "names": ["a", None, rank]}) == {"lr": 0.1, "names": ["a", None, 0]}
    assert torch.equal(worker.broadcast(torch.arange(3) + rank), torch.arange(3))
    assert worker.broadcast("text" * (rank + 1)) == "text"
    worker.print("only", rank)


@each_runtime
@pytest.mark.parametrize("system", ["allreduce", "ssp", "gossipgrad", "strom"])
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_agree_on_numbers_and_words(on: Any, system: str, workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    run(speaks, workers=workers, strategy=system, on=on)
    assert capfd.readouterr().out == "only 0\n"


def test_a_barrier_takes_virtual_time() -> None:
    times: list[float] = []

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        began = worker._stage.port.now()
        worker.barrier()
        times.append(worker._stage.port.now() - began)

    run(train, workers=2, strategy="allreduce", on=Simulator(network="slow"))
    assert min(times) >= 0.02


def test_workers_stop_together() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for step in range(100):
            worker.count(1)
            model(torch.ones(1, 10)).sum().backward()
            optimizer.step()
            if worker.any(step == 3 + 2 * worker.rank):
                break

    assert go(train, "allreduce", 3).summary.steps == 4


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda worker: worker.mean(torch.arange(3)), r"tensor of torch.int64, which has no mean: convert it with .float\(\)"),
        (lambda worker: worker.mean("loss"), r"worker.mean got 'loss': give a number or a tensor"),
        (lambda worker: worker.broadcast(object()), r"worker.broadcast got a object, which cannot be sent: give a tensor, or numbers"),
    ],
)
def test_what_cannot_be_said_is_refused(call: Any, said: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        call(worker)

    with pytest.raises(WorkloadError, match=said):
        go(train)


@each_runtime
@pytest.mark.parametrize(
    "call",
    [lambda: torch.distributed.barrier(), lambda: torch.distributed.all_reduce(torch.ones(1)), torch.distributed.get_rank],
    ids=["barrier", "all_reduce", "rank"],
)
def test_torch_distributed_is_answered_with_what_there_is_instead(on: Any, call: Any) -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        call()

    with pytest.raises(
        CompositionError, match=r"torch.distributed.*has no process group in a training function: use worker.barrier\(\), worker.mean"
    ):
        run(train, workers=2, strategy="allreduce", on=on)
