"""All workers of a run have the same model when they begin, take equally many steps, and end with the same weights, in both runtimes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from kinds import fewest
from torch import nn
from toy import Toy, network, trained

from polyrhythm import systems
from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, DeadlockError, DriftWarning
from polyrhythm.topology import AllToAll

from .scenes import EVERY_SYSTEM, go, loop, sgd

RUNTIMES = {"simulator": Simulator(network=Instant()), "processes": Processes()}
runtimes = pytest.mark.parametrize("on", RUNTIMES.values(), ids=RUNTIMES)


def other_model(worker: Any) -> None:
    model = network() if worker.rank != 1 else nn.Sequential(nn.Linear(10, 7), nn.Linear(7, 3))
    worker.attach(model, sgd(model))


def other_optimizer(worker: Any) -> None:
    model = network()
    worker.attach(model, sgd(model) if worker.rank != 1 else torch.optim.Adam(model.parameters()))


def other_precision(worker: Any) -> None:
    model = network() if worker.rank != 1 else network().double()
    worker.attach(model, sgd(model))


@runtimes
@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            other_model,
            "worker/0 has parameter 0.weight float32 (12, 10), worker/1 has parameter 0.weight float32 (7, 10): attach the same model",
        ),
        (
            other_optimizer,
            "worker/0 has optimizer SGD, worker/1 has optimizer Adam: attach the same model and optimizer at every worker, equally often",
        ),
        (other_precision, "worker/0 has parameter 0.weight float32 (12, 10), worker/1 has parameter 0.weight float64 (12, 10)"),
    ],
    ids=["model", "optimizer", "precision"],
)
def test_models_that_differ_are_refused_with_the_first_difference(train: Any, message: str, on: Runtime) -> None:
    for system in ("allreduce", "strom"):
        with pytest.raises(CompositionError) as caught:
            run(train, workers=2, strategy=system, on=on)
        assert message in str(caught.value)


def drifts(worker: Any) -> None:
    """Worker 1 has a learning rate of its own."""
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1 + 0.1 * (worker.rank == 1)))
    loop(worker, model, optimizer)


def touches(worker: Any, part: float) -> None:
    """The last worker changes its weights by hand, by a part of each."""
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    loop(worker, model, optimizer)
    if worker.rank == worker.workers - 1:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1 + part)
    worker.finish()


def touches_visibly(worker: Any) -> None:
    touches(worker, 1e-3)


def touches_as_rounding_does(worker: Any) -> None:
    touches(worker, 2e-7)


def as_if_on_another_processor(worker: Any) -> None:
    if worker.rank == worker.workers - 1:
        torch.backends.cpu.get_cpu_capability = lambda: "OTHER"
    touches_visibly(worker)


@runtimes
@pytest.mark.parametrize("train", [drifts, touches_visibly])
def test_replicas_that_drift_apart_are_no_result(train: Any, on: Runtime) -> None:
    at_once = r"At step 1 worker/0 has option lr 0\.1, worker/1 has option lr 0\.2"
    message = (
        rf"{at_once}|worker/0 has final weights those of .*, worker/1 has final weights [0-9.]+e-[0-9]+ of their norm away .*drifted apart"
    )
    with pytest.raises(CompositionError, match=message):
        run(train, workers=2, strategy="allreduce", on=on)


@pytest.mark.parametrize("workers", [2, 3])
def test_up_to_rounding_all_end_with_the_weights_of_worker_0_and_report_it(workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    found = run(touches_as_rounding_does, workers=workers, strategy="allreduce", on=Processes())
    untouched = run(lambda worker: touches(worker, 0.0), workers=workers, strategy="allreduce", on=Processes())
    assert found.summary.weights_sha256 == untouched.summary.weights_sha256
    warned = [line for line in capfd.readouterr().err.splitlines() if "DriftWarning" in line]
    assert len(warned) == 1
    assert re.search(rf"worker/{workers - 1} ended 2\.\de-07 of the weights' norm away from worker/0 \(as rounding explains\)", warned[0])
    assert found.summary.messages_sent == untouched.summary.messages_sent


def test_virtual_workers_are_judged_alike() -> None:
    with pytest.warns(DriftWarning, match=r"worker/1 ended 2\.\de-07 of the weights' norm away from worker/0"):
        run(touches_as_rounding_does, workers=2, strategy="allreduce", on=Simulator(network=Instant()))


def test_on_another_kind_of_processor_any_distance_is_only_reported(capfd: pytest.CaptureFixture[str]) -> None:
    found = run(as_if_on_another_processor, workers=2, strategy="allreduce", on=Processes())
    assert found.summary.weights_sha256 == run(lambda worker: touches(worker, 0.0), workers=2, on=Processes()).summary.weights_sha256
    assert "away from worker/0 (worker/1 has a CPU with OTHER instructions, worker/0 has a CPU with " in capfd.readouterr().err


APART = ("keuper-asgd", "strom", "gaia", "dl4j-sharing", "actors-decentralised", "ako", "hong-chandra", "dlion")
"""Systems whose replicas take in what others did in orders of their own, or not all of it."""


@pytest.mark.parametrize("system", fewest(EVERY_SYSTEM))
@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=pytest.mark.long), 3, pytest.param(5, marks=pytest.mark.long)])
def test_every_system_ends_alike_or_reports_that_it_does_not(system: str, workers: int) -> None:
    trained(Toy(epochs=2), workers, system)
    assert systems.find(system).ends_alike == (system not in APART)


def test_only_where_each_takes_in_others_in_its_own_order_do_replicas_end_apart() -> None:
    assert [Strategy(consistency=each, topology=AllToAll()).ends_alike for each in (BulkSynchronous(), Bounded(2), Asynchronous())] == [
        True,
        False,
        False,
    ]


def leaves_early(worker: Any) -> None:
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    for _ in range(5 if worker.rank else 3):
        worker.count(1)
        optimizer.zero_grad()
        model(torch.ones(1, 10)).sum().backward()
        optimizer.step()


IMPATIENT = pytest.mark.parametrize("on", [RUNTIMES["simulator"], Processes(patience=0.4)], ids=RUNTIMES)


@IMPATIENT
@pytest.mark.parametrize("system", ["allreduce", "gossipgrad"])
def test_who_leaves_before_the_others_is_named_with_its_steps_and_the_remedy(system: str, on: Runtime) -> None:
    with pytest.raises(DeadlockError) as caught:
        run(leaves_early, workers=2, strategy=system, on=on)
    assert str(caught.value) == (
        "worker/0 finished after 3 steps, but worker/1 waits to take another: every worker must take the same number of steps; "
        "stop together with worker.any(...), or give all equally many batches."
    )


def calls_alone(worker: Any) -> None:
    """All take equally many steps; then worker 0 waits for the others."""
    model = network()
    model, optimizer = worker.attach(model, sgd(model))
    loop(worker, model, optimizer)
    if worker.rank == 0:
        worker.barrier()


@IMPATIENT
@pytest.mark.parametrize("system", ["allreduce", "ssp"])
def test_who_waits_in_a_call_that_others_did_not_make_is_not_recorded_checkpoints_steps(system: str, on: Runtime) -> None:
    message = r"worker/1 finished after [0-9]+ steps, but worker/0 waits in worker\.barrier\(\), mean\(\), any\(\) or broadcast"
    with pytest.raises(DeadlockError, match=message):
        run(calls_alone, workers=2, strategy=system, on=on)


def test_agreeing_is_no_traffic_and_takes_no_time() -> None:
    """What is sent and when, to the byte and the nanosecond, is what the strategy sends: the weights to begin with, a gradient a step."""
    summary = go(lambda worker: worker.attach(model := network(), sgd(model)), "allreduce", 2).summary
    assert summary.messages_sent == 1
    assert summary.virtual_seconds == 0.0
