"""Runs that continue as if nobody had been lost: schedules of learning rates, codecs, broadcasts and evaluations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import polyrhythm as pr
from polyrhythm.codec import ErrorFeedback, TopK
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import Evaluated
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.hardware.faults import Crash, Fault
from polyrhythm.systems import resolve
from polyrhythm.topology import AllReduce, Bucketed, Keyed

STEPS = 6
MOMENTS = 16


def run(train: Callable[[pr.Worker], None], strategy: Strategy, *faults: Fault) -> Attempt:
    tried = attempt(
        train, workers=Crew(1, 4, replace=False, batch="global"), strategy=strategy, on=pr.Simulator(network="lan", faults=faults)
    )
    assert tried.error is None
    return tried


def moments(whole: float) -> list[float]:
    return [whole * (moment + 0.5) / MOMENTS for moment in range(MOMENTS)]


def test_a_learning_rate_schedule_takes_each_of_its_steps_once() -> None:
    found: dict[str, tuple[float, float]] = {}

    def train(worker: pr.Worker) -> None:
        torch.manual_seed(0)
        model = nn.Linear(3000, 3)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for step in worker.range(STEPS):
            worker.count(8)
            optimizer.zero_grad()
            ((step + 1) * model.bias.sum() + 0 * model.weight.sum()).backward()
            optimizer.step()
            schedule.step()
            assert worker.broadcast(step) == step
        found[str(worker.rank)] = (optimizer.param_groups[0]["lr"], model.bias[0].item())

    system = resolve("allreduce")
    whole = run(train, system).outcome.summary.virtual_seconds
    (expected,) = set(found.values())
    for at in moments(whole):
        found.clear()
        run(train, system, Crash("worker/2", at))
        assert {rate for rate, _ in found.values()} == {expected[0]}, at
        assert [weight for _, weight in found.values()] == pytest.approx([expected[1]] * len(found), abs=1e-3), at


@pytest.mark.parametrize("topology", [Bucketed(AllReduce(), nbytes=600), Keyed(AllReduce())], ids=["bucketed", "keyed"])
def test_a_step_that_is_repeated_has_sent_nothing_before(topology: Bucketed | Keyed) -> None:
    """What was sent and what codecs have kept is what was computed, also where a worker takes over a donor's state."""
    codec = ErrorFeedback(TopK(0.34))
    workers: list[pr.Worker] = []

    def train(worker: pr.Worker) -> None:
        model = nn.Sequential(nn.Linear(50, 2), nn.Linear(50, 2), nn.Linear(50, 2))
        with torch.no_grad():
            for each in model.parameters():
                each.zero_()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
        for _ in worker.range(STEPS):
            worker.count(8)
            optimizer.zero_grad()
            sum((p * torch.arange(1, p.numel() + 1).view_as(p) / 100).sum() for p in model.parameters()).backward()  # type: ignore[union-attr]
            optimizer.step()
        workers.append(worker)

    def accounted() -> list[float]:
        parts = [worker.attached[0].parts[0] for worker in workers]
        return [sum(kept.sum().item() for _, kept in part.channel.states()) - part.local.state.weights.sum().item() for part in parts]

    strategy = Strategy(topology=topology, codec=codec)
    whole = run(train, strategy).outcome.summary.virtual_seconds
    computed = accounted()[0]
    for at in moments(whole):
        workers.clear()
        run(train, strategy, Crash("worker/2", at))
        assert accounted() == pytest.approx([computed] * 3, abs=0.01), at


def test_a_worker_that_becomes_the_first_evaluates_from_then_on() -> None:
    def train(worker: pr.Worker) -> None:
        torch.manual_seed(0)
        model = nn.Linear(6, 3)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
        worker.evaluate(lambda model: {"bias": model.bias[0].item()})
        for _ in worker.range(100):
            worker.count(4)
            optimizer.zero_grad()
            model.bias.sum().backward()
            optimizer.step()

    lost = 0.03
    undisturbed, continued = run(train, resolve("allreduce")), run(train, resolve("allreduce"), Crash("worker/0", lost))
    found = [event for event in continued.outcome.events if isinstance(event, Evaluated)]
    assert min(event.time for event in found) > lost
    assert min(event.clock for event in found) > 1
    last = [event for event in undisturbed.outcome.events if isinstance(event, Evaluated)][-1]
    assert found[-1].metrics == pytest.approx(last.metrics)
