"""Which buffers are evaluated, and what keeping them takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from toy import SLOW, data

from polyrhythm.buffers import OwnBuffers
from polyrhythm.core.protocols.snapshots import index_at
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training import evaluation, followed
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Profile

from .evaluations import evaluations, fickle, trains


def tracks(seen: dict[int, list[tuple[float, float]]]) -> Callable[[Any], None]:
    """Notes by rank when a step began, at the end of the one before it, and what statistics its forward pass has left."""

    def train(worker: Any) -> None:
        model = nn.Sequential(nn.Linear(10, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 3))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        worker.evaluate(lambda model: {"tracked": model[1].running_var.mean().item()})
        noted, began = seen.setdefault(worker.rank, [(-1.0, 1.0)]), worker._context.port.now()
        for _ in range(2):
            for x, y in worker.batches(data(), batch_size=4):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(10 * x), y)
                noted.append((began, model[1].running_var.mean().item()))
                loss.backward()
                optimizer.step()
                began = worker._context.port.now()

    return train


@pytest.mark.parametrize("seconds", [1.0, 0.001], ids=["computing", "exchanging"])
@pytest.mark.parametrize("system", ["allreduce", "sparknet", "gossipgrad", "easgd", "ssp"])
def test_buffers_are_those_of_the_step_that_was_under_way(system: str, seconds: float) -> None:
    """Whether most of the time passes in computing or in exchanging."""
    seen: dict[int, list[tuple[float, float]]] = {}
    on = Simulator(network=SLOW, devices=Profile("steady", (seconds,)))
    *during, _ = evaluations(run(tracks(seen), workers=3, strategy=system, on=on, seed=2))
    assert len(during) > 8
    for event in during:
        latest = [[value for began, value in noted if began < event.time][-1] for noted in seen.values()]
        assert event.metrics["tracked"] == pytest.approx(sum(latest) / 3, rel=1e-5)


def test_of_buffers_that_each_keeps_those_of_worker_0_are_the_results() -> None:
    seen: dict[int, list[tuple[float, float]]] = {}
    on = Simulator(network=SLOW, devices=Profile("second", (1.0,)))
    for event in evaluations(run(tracks(seen), workers=3, strategy=Strategy(buffers=OwnBuffers()), on=on, seed=2)):
        latest = [value for began, value in seen[0] if began < event.time][-1]
        assert event.metrics["tracked"] == pytest.approx(latest, rel=1e-6)


def test_buffers_are_copied_when_a_moment_has_passed_and_not_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[int] = []
    flatten = followed._flat
    monkeypatch.setattr(followed, "_flat", lambda buffers: (copies.append(0), flatten(buffers))[1])
    monkeypatch.setattr(evaluation.Evaluation, "finish", lambda self: {})
    on = Simulator(network=SLOW, devices=Profile("quick", (1e-4,)))
    outcome = run(trains(epochs=10, build=fickle), workers=1, strategy="single", on=on)
    assert outcome.summary.steps == 120
    assert 10 < len(copies) <= index_at(outcome.outcome.time) + 1 < 40
