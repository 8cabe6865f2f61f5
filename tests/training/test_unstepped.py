"""A run whose attached optimizer is never stepped, though the weights change, is never a success."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kinds import fewest
from torch.nn import functional as F
from toy import data, network

from polyrhythm import systems
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.processes import Processes
from polyrhythm.errors import PolyrhythmError

from .scenes import EVERY_SYSTEM, go, sgd
from .unstepped import CASES, gradient, subtract


@pytest.mark.parametrize("system", fewest(EVERY_SYSTEM))
def test_weights_that_change_without_a_step_are_refused_and_what_only_looks_so_is_right(system: str) -> None:
    found = {name: case.outcome(system) for name, case in CASES.items()}
    assert {name: outcome for name, outcome in found.items() if outcome not in ("right", "refused", "limit")} == {}


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("SAM's two methods", "allreduce"),
        ("an update by hand", "hogwild"),
        ("own batches, without a word", "ssp"),
        ("step() forgotten", "allreduce"),
        ("copies, by functional_call", "ssp"),
        ("a copy is trained, and the attached one stepped", "allreduce"),
        ("a copy is trained, and the attached one stepped", "qsgd"),
        ("evaluates, swaps, adds noise, accumulates", "gossipgrad"),
        ("evaluates, swaps, adds noise, accumulates", "hogwild"),
    ],
)
def test_so_they_are_in_processes(name: str, system: str) -> None:
    assert CASES[name].outcome(system, Processes()) == ("right" if CASES[name].refusal is None else "refused")


def test_it_is_noticed_at_the_first_batch_after() -> None:
    drawn = []

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for number, (x, y) in enumerate(worker.batches(data(), batch_size=8)):
            drawn.append(number)
            gradient(model, x, y)
            if number < 2:
                optimizer.step()
            else:
                for parameter in model.parameters():
                    subtract(parameter)

    with pytest.raises(PolyrhythmError, match=r"A batch has changed the weights"):
        go(train, workers=1)
    assert drawn == [0, 1, 2]


def test_a_worker_that_evaluates_only_has_taken_no_step_and_ends_well() -> None:
    def train(worker: Any) -> None:
        model = network()
        gradient(model, *data())  # from before, and none of the run's
        worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=8):
            loss = F.cross_entropy(model(x), y)
            worker.report(loss=worker.mean(loss.detach()))

    for system in ("allreduce", "ssp", "easgd", "gossipgrad", "hogwild", "single"):
        assert go(train, system, 1 if system == "single" else 2).summary.steps == 0


@pytest.mark.parametrize("system", ["easgd", "hogwild"])
def test_a_worker_that_evaluates_next_to_others_that_train_ends_well(system: str) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=8):
            loss = F.cross_entropy(model(x), y) if worker.rank == 0 else gradient(model, x, y)
            if worker.rank:
                optimizer.step()
            worker.report(loss=worker.mean(loss.detach()))

    assert go(train, system, 3).summary.steps > 0


def test_a_worker_without_samples_steps_without_gradients_and_ends_well() -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=8):
            if worker.rank:
                gradient(model, x, y)
            optimizer.step()

    for system in ("allreduce", "local-sgd", "ssp"):
        assert go(train, system).summary.steps > 0


def test_of_several_optimizers_one_may_wait_for_its_turn() -> None:
    def train(worker: Any) -> None:
        first, second = network(), network()
        first, optimizer = worker.attach(first, sgd(first))
        second, _ = worker.attach(second, sgd(second))
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(second(first(x).repeat(1, 4)[:, :10]), y).backward()
            optimizer.step()

    go(train)


@pytest.mark.parametrize("system", ["allreduce", "fedavg", "ssp", "diloco"])
def test_a_resumed_run_with_nothing_left_ends_well(system: str, tmp_path: Path) -> None:
    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        unattached = network()
        gradient(unattached, *data())  # what is not attached is trained again, too
        for x, y in worker.batches(data(), batch_size=8):
            gradient(model, x, y)
            optimizer.step()

    whole = go(train, system, checkpoints=Checkpoints(tmp_path, every=1, keep=99))
    last = sorted(tmp_path.glob("step-*"))[-1]
    assert go(train, system, checkpoints=Checkpoints(resume=last)).summary.weights_sha256 == whole.summary.weights_sha256


def test_what_is_done_with_a_model_after_its_run_is_not_looked_at() -> None:
    kept = []

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        for x, y in worker.batches(data(), batch_size=8):
            gradient(model, x, y)
            optimizer.step()
        worker.finish()
        kept.append(model)
        with_another = sgd(model)
        gradient(model, x, y)
        with_another.step()
        worker.report(loss=1.0)

    go(train, systems.find("ssp"))
    with_another = sgd(kept[0])
    with_another.step()
