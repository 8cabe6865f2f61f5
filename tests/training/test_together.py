"""Barriers, means and words for the user's own use, in both runtimes."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import torch
from toy import network

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, PolyrhythmError, WorkerFailed, WorkloadError
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.faults import Crash

from .scenes import go, loop, sgd

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
    received = worker.broadcast((1, 2.5, {1: [b"raw", True]}, float("inf")) if rank == 0 else None)
    assert repr(received) == repr((1, 2.5, {1: [b"raw", True]}, float("inf")))
    assert torch.equal(worker.broadcast(torch.arange(3) + rank), torch.arange(3))
    assert worker.broadcast("text" * (rank + 1)) == "text"
    assert worker.gather({"rank": rank}) == [{"rank": each} for each in range(worker.workers)]
    for each, tensor in enumerate(worker.gather(torch.full((rank + 1, 2), rank, dtype=torch.bfloat16))):
        assert torch.equal(tensor, torch.full((each + 1, 2), each, dtype=torch.bfloat16))
    assert [len(each) for each in worker.gather(torch.zeros(rank, dtype=torch.int64))] == list(range(worker.workers))
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
        began = worker._context.port.now()
        worker.barrier()
        times.append(worker._context.port.now() - began)

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
    ("call", "message"),
    [
        (lambda worker: worker.mean(torch.arange(3)), r"tensor of torch.int64, which cannot be averaged: convert it with .float\(\)"),
        (lambda worker: worker.mean("loss"), r"worker.mean got 'loss', which is not a single number: give a number or a tensor"),
        (lambda worker: worker.broadcast(torch.ones(2) * 1j), r"got a tensor of torch.complex64, which cannot be sent: convert it"),
        (
            lambda worker: worker.broadcast(object()),
            r"worker.broadcast got a value of type object, which cannot be sent without changing it: give a tensor, or",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused(call: Any, message: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        call(worker)

    with pytest.raises(WorkloadError, match=message):
        go(train)


MISMATCHES = {
    "allreduce": r"worker/0 waits for worker/1 in worker.barrier\(\) \(call 1 .*; worker/1 waits for worker/0 in worker.mean\(\) \(call 1 ",
    "softsync": r"worker/0 calls worker.barrier\(\) where worker/1 calls worker.mean\(\): every worker must make the same calls",
}


@pytest.mark.parametrize("system", MISMATCHES)
def test_a_mean_never_meets_a_barrier(system: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        if worker.rank == 0:
            worker.barrier()
        else:
            worker.mean(4.0)

    with pytest.raises(PolyrhythmError, match=MISMATCHES[system]):
        go(train, system)


SURVIVORS = ("downpour", "strom", "softsync")
CALLS = {
    "mean": lambda worker: worker.mean(float(worker.rank)),
    "any": lambda worker: worker.any(worker.rank == 1),
    "barrier": lambda worker: worker.barrier(),
    "broadcast": lambda worker: worker.broadcast(("epoch", worker.rank)),
    "gather": lambda worker: worker.gather(worker.rank),
}


def epochs(call: Any, results: dict[int, list[Any]]) -> Any:
    """Trains for three epochs, and makes `call` after each."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for _ in range(3):
            loop(worker, model, optimizer)
            results.setdefault(worker.rank, []).append(call(worker))

    return train


@pytest.mark.parametrize("moment", [0.0, 0.03, 0.075])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("system", SURVIVORS)
def test_a_run_that_survives_a_loss_survives_it_in_collective_calls(system: str, call: str, moment: float) -> None:
    results: dict[int, list[Any]] = {}
    on = Simulator(network="slow", devices=Profile("steps", (0.01,)), faults=(Crash("worker/3", moment),))
    assert run(epochs(CALLS[call], results), workers=4, strategy=system, on=on).summary.lost == ["worker/3"]
    assert results[0] == results[1] == results[2]
    assert results[0][-1] == {"mean": 1.0, "any": True, "barrier": None, "broadcast": ("epoch", 0), "gather": [0, 1, 2]}[call]


@pytest.mark.parametrize("moment", [0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1])
def test_who_is_lost_while_workers_speak_counts_at_all_or_at_none(moment: float) -> None:
    results: dict[int, list[float]] = {}

    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        results[worker.rank] = [worker.mean(float(worker.rank)) for _ in range(8)]

    run(train, workers=4, strategy="softsync", on=Simulator(network="slow", faults=(Crash("worker/3", moment),)))
    assert results[0] == results[1] == results[2]
    assert results[0] == sorted(results[0], reverse=True)
    assert set(results[0]) <= {1.5, 1.0}


def test_a_worker_that_is_killed_is_not_waited_for() -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        assert worker.mean(worker.rank) == 1.0
        if worker.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        assert worker.mean(worker.rank) == 0.5
        assert worker.broadcast(worker.rank) == 0
        worker.barrier()

    assert run(train, workers=3, strategy="softsync", on=Processes()).summary.lost == ["worker/2"]


def test_the_loss_of_worker_0_is_named() -> None:
    on = Simulator(network="slow", faults=(Crash("worker/0", 0.1),))
    with pytest.raises(WorkerFailed, match=r"worker/0 failed: it crashed at 0\.1 s.*the run cannot go on without it"):
        run(epochs(CALLS["mean"], {}), workers=4, strategy="softsync", on=on)


@each_runtime
@pytest.mark.parametrize(
    "call",
    [lambda: torch.distributed.barrier(), lambda: torch.distributed.all_reduce(torch.ones(1)), torch.distributed.get_rank],
    ids=["barrier", "all_reduce", "rank"],
)
def test_torch_distributed_is_refused_with_the_replacement(on: Any, call: Any) -> None:
    def train(worker: Any) -> None:
        model = network()
        worker.attach(model, sgd(model))
        call()

    with pytest.raises(
        CompositionError, match=r"torch.distributed.*has no process group in a training function: use worker.barrier\(\), worker.mean"
    ):
        run(train, workers=2, strategy="allreduce", on=on)
