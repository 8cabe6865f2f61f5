"""Workers take over a part of the weights of the one with the least loss."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from toy import Toy, weights

import polyrhythm as pr
from polyrhythm.core.protocols.controller import ControlledSetting, Measurements, WorkerMeasure
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.strategy.equal_replicas import EqualReplicas
from polyrhythm.errors import CompositionError
from polyrhythm.systems import find


def strategy(share: float = 0.75, every: int = 2) -> Strategy:
    return Strategy(
        consistency=pr.consistency.Bounded(1),
        topology=pr.topology.KnowledgeTransfer(every=every, share=share),
        controller=pr.controllers.BestWorker(every),
    )


def apart(worker: Any) -> None:
    """Worker r has the weights r, and no gradient moves them; its loss is r."""
    model = torch.nn.Linear(1, 2, bias=False)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with torch.no_grad():
        model.weight.fill_(float(worker.rank))
    ends: list[float] = []
    for _ in range(16):
        worker.count(1)
        optimizer.zero_grad()
        (model.weight * 0).sum().backward()
        optimizer.step()
        worker.report(loss=float(worker.rank))
        ends.append(model.weight[0, 0].item())
    seen[worker.rank] = ends


seen: dict[int, list[float]] = {}


@pytest.mark.parametrize("share", [0.75, 1.0])
def test_those_behind_move_towards_the_best_every_few_steps_and_the_best_stays(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EqualReplicas, "compares", lambda self, clock: False)  # workers that begin apart are refused otherwise
    seen.clear()
    pr.run(apart, workers=3, strategy=strategy(share), on=pr.Simulator(network="lan"))
    assert set(seen[0]) == {0.0}
    for rank in (1, 2):
        distances = list(dict.fromkeys(seen[rank]))
        assert distances[0] == rank
        assert distances[1] == pytest.approx(rank * (1 - share))
        assert distances == sorted(distances, reverse=True)
        assert len(distances) > 2 or share == 1


def test_without_reports_nothing_is_transferred() -> None:
    def silent(worker: Any) -> None:
        worker.report = lambda **_: None
        Toy()(worker)

    plain = Strategy(consistency=pr.consistency.Bounded(1), topology=pr.topology.LinkExchange())
    run = [pr.run(silent, workers=3, strategy=each, on=pr.Simulator(network=pr.Instant()), seed=5) for each in (strategy(), plain)]
    assert run[0].summary.weights_sha256 == run[1].summary.weights_sha256


def test_one_worker_learns_from_no_other() -> None:
    assert torch.equal(weights(Toy(), 1, strategy()), weights(Toy(), 1, "single"))


def test_the_best_is_the_first_with_the_least_loss() -> None:
    losses = {"worker/0": 2.0, "worker/1": 1.0, "worker/2": 1.0, "worker/3": math.inf}
    measures = {name: WorkerMeasure(0.1, 8, loss) for name, loss in losses.items()}
    named = {}
    for name in measures:
        (decision,), _ = pr.controllers.BestWorker().decide(Measurements(100, name, measures, {}, 100, 4), {})
        assert decision.setting is ControlledSetting.TEACHER
        named[name] = decision.value
    assert named == {"worker/0": 1, "worker/1": 1, "worker/2": 2, "worker/3": 1}
    silent = {name: WorkerMeasure(0.1, 8) for name in losses}
    assert pr.controllers.BestWorker().decide(Measurements(100, "worker/0", silent, {}, 100, 4), {}) == ((), {})


def test_dlion_transfers_by_default() -> None:
    assert find("dlion").topology == pr.topology.KnowledgeTransfer(every=100)
    assert find("dlion", transfer_period=None).topology == pr.topology.LinkExchange()


def test_what_transfers_nothing_is_refused() -> None:
    for make in (
        lambda: pr.topology.KnowledgeTransfer(every=0),
        lambda: pr.topology.KnowledgeTransfer(share=0.0),
        lambda: pr.topology.KnowledgeTransfer(pr.topology.Server()),
    ):
        with pytest.raises(CompositionError, match=r"[Gg]ive"):
            make()
    with pytest.raises(CompositionError, match="worker to learn from, which LinkExchange does not have"):
        Strategy(consistency=pr.consistency.Bounded(1), topology=pr.topology.LinkExchange(), controller=pr.controllers.BestWorker())
