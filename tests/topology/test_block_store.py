"""A block store: what it equals, what it sends, and what becomes of tasks whose workers are lost or late."""

from __future__ import annotations

import dataclasses
import os
import signal
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from toy import SLOW, Toy, data, network, weights

from polyrhythm.codec import Cast, ErrorFeedback, TopK
from polyrhythm.consistency import Asynchronous
from polyrhythm.core.kernel.events import Reported, Sent
from polyrhythm.core.kernel.names import rank_of
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError, WorkerFailed
from polyrhythm.hardware.faults import Crash, Stall
from polyrhythm.hardware.network import Network
from polyrhythm.hardware.placement import WithWorkers
from polyrhythm.merge import Adagrad, LinearScaling, OuterOptimizer
from polyrhythm.topology import BlockStore, Server
from polyrhythm.topology.block_store.block_records import Gradient, TaskBlocks, Weights, from_numbers, from_store, to_numbers, to_worker
from polyrhythm.topology.block_store.gradient_count import GradientCount

ADAM = Toy(lambda parameters: torch.optim.Adam(parameters, lr=0.01), epochs=3)
STORE = Strategy(topology=BlockStore())
WORKERS = 4


@pytest.mark.parametrize(
    "pieces",
    [
        {},
        {"codec": Cast(torch.bfloat16)},
        {"codec": ErrorFeedback(TopK(0.3))},
        {"merge": OuterOptimizer(Adagrad())},
        {"merge": LinearScaling(4)},
    ],
    ids=repr,
)
@pytest.mark.parametrize("slices", [None, 1, 3])
def test_it_is_parameter_servers_in_lockstep_bit_for_bit(pieces: dict[str, Any], slices: int | None) -> None:
    found = weights(ADAM, WORKERS, Strategy(topology=BlockStore(slices), **pieces))
    assert torch.equal(found, weights(ADAM, WORKERS, Strategy(topology=Server(slices or WORKERS), **pieces)))


def wide(worker: Any, steps: int) -> None:
    model = torch.nn.Linear(400, 40)
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters()))
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(1, 400)).square().mean().backward()
        worker.count(1)
        optimizer.step()


def test_a_machine_with_a_worker_and_its_slice_sends_less_than_twice_the_model_in_a_step() -> None:
    network = dataclasses.replace(Network.uniform("beside", 1e8, 1e-3), placement=WithWorkers())
    loads = []
    for steps in (1, 4):
        outcome = run(
            lambda w, n=steps: wide(w, n), workers=WORKERS, strategy=STORE, on=Simulator(network=network, record_sends=True)
        ).outcome  # type: ignore[misc]
        load = dict.fromkeys(range(WORKERS), 0)
        for event in outcome.events:
            if isinstance(event, Sent) and rank_of(event.actor) != rank_of(event.to):
                load[rank_of(event.actor)] += event.nbytes
        loads.append(load)
    model = 4 * (400 * 40 + 40)
    for host in range(WORKERS):
        assert (loads[1][host] - loads[0][host]) / 3 == pytest.approx(2 * (WORKERS - 1) / WORKERS * model, rel=0.03)


# --- losses


def history(worker: Any) -> None:
    """Reports a digest of the weights after each step."""
    model = network()
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=0.01))
    for _ in range(2):
        for x, y in worker.batches(data(), batch_size=4):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            worker.report(sum=sum(p.double().sum().item() for p in model.parameters()))


def went(faults: tuple[Any, ...] = (), late: float = 30.0) -> tuple[list[tuple[float, float]], Any]:
    """When worker 0 had which weights, and the run."""
    on = Simulator(network=SLOW, faults=faults)
    found = run(history, workers=WORKERS, strategy=Strategy(topology=BlockStore(late=late)), on=on, seed=2)
    events = found.outcome.events
    sums = [(event.time, event.metrics["sum"]) for event in events if isinstance(event, Reported) and event.actor == "worker/0"]
    return sums, found


PLAIN, WHOLE = went()
STEP = (PLAIN[5][0] - PLAIN[4][0], PLAIN[4][0])
"""How long a step takes, and when the fifth ends."""


def test_a_worker_that_crashes_changes_nothing_before_its_gradient_is_missing_and_the_others_go_on() -> None:
    """At moments of the sixth step: in the first job, which is then that of the others, and in the second, whose task is redone."""
    kept = []
    for part in (0.05, 0.15, 0.3, 0.6, 0.7, 0.8, 0.95):
        sums, found = went((Crash("worker/2", at=STEP[1] + part * STEP[0]),))
        alike = [one[1] == other[1] for one, other in zip(sums, PLAIN, strict=True)]
        assert found.summary.lost == ["worker/2"]
        assert found.summary.steps == WHOLE.summary.steps
        assert all(alike[:5])
        assert not any(alike[6:])
        kept.append(alike[5])
    assert kept == [False] * 2 + [True] * 5, "before all is published, and after"


def test_a_task_that_is_late_is_done_by_another_and_the_run_has_the_same_bits() -> None:
    stall = Stall("worker/2", at=STEP[1] + 0.5 * STEP[0], duration=20.0)
    waits, waiting = went((stall,))
    redone, redoing = went((stall,), late=0.5)
    assert [s for _, s in waits] == [s for _, s in redone] == [s for _, s in PLAIN]
    assert redone[5][0] < waits[5][0] - 15, "the others have the step's weights before the worker comes back"
    assert redoing.summary.weights_sha256 == waiting.summary.weights_sha256 == WHOLE.summary.weights_sha256


def test_a_worker_that_is_late_with_its_gradient_is_waited_for() -> None:
    stalled, found = went((Stall("worker/2", at=STEP[1] + 0.05 * STEP[0], duration=5.0),), late=0.5)
    assert [s for _, s in stalled] == [s for _, s in PLAIN]
    assert found.summary.lost == []


def test_worker_0_and_slices_are_needed() -> None:
    for actor in ("worker/0", "server/1"):
        with pytest.raises(WorkerFailed, match=actor):
            went((Crash(actor, at=STEP[1]),))


def trains(worker: Any, die: Any) -> None:
    model = network()
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=0.01))
    for x, y in worker.batches(data(), batch_size=4):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if (worker.rank, worker.clock) == (2, 3):
            die()
        optimizer.step()
        worker.report(sum=sum(p.double().sum().item() for p in model.parameters()))


def reported(die: Any, on: Any) -> tuple[list[float], Any]:
    found = run(lambda worker: trains(worker, die), workers=3, strategy=STORE, on=on, seed=2)
    return [each.metrics["sum"] for each in found.outcome.events if isinstance(each, Reported) and each.actor == "worker/0"], found


def test_the_others_go_on_without_a_process_that_is_killed_and_have_the_simulators_bits_up_to_then() -> None:
    real, found = reported(lambda: os.kill(os.getpid(), signal.SIGKILL), Processes(cuda=False))
    virtual, _ = reported(lambda: None, Simulator())
    assert found.summary.lost == ["worker/2"]
    assert len(real) == len(virtual) == 8
    assert [one == other for one, other in zip(real, virtual, strict=True)] == [True] * 3 + [False] * 5


# --- pieces


def test_who_is_lost_counts_if_all_slices_have_its_gradient() -> None:
    driver = GradientCount(["worker/0", "worker/1", "worker/2"], 2)
    for worker in ("worker/2", "worker/0", "worker/1", "worker/2", "worker/1"):
        driver.stored(worker, 1)
    assert driver.complete() == (0, [])
    for worker in ("worker/1", "worker/2"):
        driver.view = driver.view.without(worker)
    driver.stored("worker/0", 1)
    assert driver.complete() == (1, ["worker/0", "worker/1", "worker/2"])
    driver.stored("worker/1", 1)  # of a step that is over
    assert driver.complete() == (0, [])
    driver.stored("worker/0", 2)
    driver.stored("worker/0", 2)
    assert driver.complete() == (2, ["worker/0"])


def test_messages_are_what_their_numbers_state() -> None:
    for request in (Gradient(3, (0.1, 0.2)), Gradient(3, ())):
        assert from_numbers(to_numbers(request)) == request
    for block in (Weights(2, 7), TaskBlocks(1, 4, 3, (0, 2), ((0.1, 0.3), (0.1, 0.3))), TaskBlocks(1, 4, 0, (5,), ((),))):
        assert from_store(to_worker(block)) == block


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BlockStore(0), "give 1 or more"),
        (lambda: BlockStore(late=0.0), "give seconds above 0"),
        (
            lambda: Strategy(topology=BlockStore(), consistency=Asynchronous()),
            "and over BlockStore workers communicate through a block store",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(CompositionError, match=message):
        make()
