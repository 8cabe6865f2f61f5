"""What only looks leaves no trace: an evaluation, whatever its function does, and a worker's properties."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from kinds import fewest
from torch import nn
from toy import SLOW, network

from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Device

from .evaluations import evaluations, fickle, score, trains
from .scenes import EVERY_SYSTEM, go, loop, sgd

each_system = pytest.mark.parametrize("system", fewest(EVERY_SYSTEM))


def careless(model: nn.Module) -> dict[str, float]:
    """Leaves every trace that an evaluation can leave: statistics, a mode, numbers drawn, a buffer in another's place."""
    model.train()
    loss = score(model)["loss"] + 0 * (random.random() + np.random.rand())
    model[1].running_mean = torch.zeros(12)  # type: ignore[union-attr,operator,index]
    return {"loss": loss}


@each_system
def test_evaluating_costs_no_time_and_no_bytes_and_changes_nothing(system: str) -> None:
    """No weight, no buffer, no module's mode, and no number that is drawn afterwards."""
    on = Simulator(network=SLOW, devices=Device("slow", 1e7, 0.01))
    left: dict[object, list[Any]] = {None: [], careless: []}

    def train(worker: Any, function: Any) -> None:
        model = fickle()
        trains(function, build=lambda: model)(worker)
        worker.finish()
        drawn = [torch.rand(1).item(), float(np.random.rand()), random.random()]
        left[function].append((worker.rank, drawn, [module.training for module in model.modules()]))

    plain, evaluated = (
        run(lambda worker, function=function: train(worker, function), workers=3, strategy=system, on=on, seed=2) for function in left
    )
    for name in ("virtual_seconds", "bytes_sent", "messages_sent", "weights_sha256", "steps"):
        assert getattr(plain.summary, name) == getattr(evaluated.summary, name)
    assert sorted(left[None]) == sorted(left[careless])
    assert len(evaluations(evaluated)) > 1
    assert evaluated.weights["1.num_batches_tracked"] > 0


def test_evaluating_changes_nothing_in_real_processes() -> None:
    plain, evaluated = (run(trains(function, build=fickle), workers=2, on=Processes(), seed=2).summary for function in (None, careless))
    assert (plain.weights_sha256, plain.bytes_sent) == (evaluated.weights_sha256, evaluated.bytes_sent)


@pytest.mark.parametrize("system", ["allreduce", "gossipgrad"])
def test_a_result_is_evaluated_in_evaluation_mode_and_by_itself(system: str) -> None:
    """Not as a batch that is normalized by its own statistics, and not after what an evaluation before it has left."""
    on = Simulator(network=SLOW)
    modest, bold = (
        run(trains(function, build=fickle), workers=2, strategy=system, on=on, seed=2)
        for function in (score, lambda model: score(model) | {"careless": careless(model)["loss"]})
    )
    assert [event.metrics["loss"] for event in evaluations(modest)] == [event.metrics["loss"] for event in evaluations(bold)]
    model = fickle()
    model.load_state_dict(modest.weights)
    assert modest.final["loss"] == pytest.approx(score(model.eval())["loss"], rel=1e-6)


def test_an_evaluation_that_fails_leaves_the_final_weights() -> None:
    models: dict[int, nn.Module] = {}
    calls: list[int] = []

    def third(model: nn.Module) -> dict[str, float]:
        calls.append(0)
        if len(calls) == 3:
            raise KeyError("no such label")
        return score(model)

    def train(worker: Any) -> None:
        trains(third, build=lambda: models.setdefault(worker.rank, fickle()))(worker)
        with pytest.raises(KeyError):
            worker.finish()

    on = Simulator(network=SLOW)
    run(train, workers=1, strategy="single", on=on, seed=2)
    plain = run(trains(None, build=fickle), workers=1, strategy="single", on=on, seed=2)
    assert all(torch.equal(value, plain.weights[name]) for name, value in models[0].state_dict().items())


def test_looking_at_a_worker_ends_nothing() -> None:
    """A property is no deed."""

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, sgd(model))
        properties = [name for name in dir(worker) if isinstance(getattr(type(worker), name, None), property)]
        assert "samples" in properties
        for name in properties:
            getattr(worker, name)
            assert not worker.finished, name
        loop(worker, model, optimizer)

    go(train)
