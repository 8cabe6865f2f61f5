"""Sums that come later than the exchanges that begin them, at some workers before the loss of another, and at others not."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import polyrhythm as pr
from elastic.test_contributions import applied, contribute
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.training.run import Attempt, attempt
from polyrhythm.hardware.faults import Crash, Fault, Leave
from polyrhythm.systems import pipe_sgd, streaming_diloco

STEPS, MOMENTS = 12, 10
LATE = {
    "gradients": pipe_sgd(width=3, warmup=0, bits=32),
    "updates": streaming_diloco(period=3, parts=2, delay=2, full_precision=True),
}


ON = {"network": "wan-3", "devices": pr.hardware.Profile("steps", (0.05,))}


def train(worker: pr.Worker) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(40, 3)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for step in worker.range(STEPS):
        worker.count(8)
        optimizer.zero_grad()
        model(torch.full((8, 40), 0.1 * step + worker.rank)).pow(2).mean().backward()
        optimizer.step()


def run(system: str, *faults: Fault) -> Attempt:
    return attempt(
        train,
        workers=Crew(1, 4, replace=False),
        strategy=LATE[system],
        on=pr.Simulator(faults=faults, **ON),
    )


@cache
def seconds(system: str) -> float:
    found = run(system).outcome.summary.virtual_seconds
    assert found is not None
    return found


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("system", LATE)
def test_survivors_end_with_equal_weights_whichever_sums_had_come_when_another_was_lost(system: str, moment: int) -> None:
    tried = run(system, Crash("worker/2", seconds(system) * (0.23 + 0.06 * moment)))
    assert tried.error is None


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("kind", [Crash, Leave])
def test_what_survivors_have_sent_for_sums_that_have_not_come_is_in_later_ones(kind: type[Fault], width: int, moment: int) -> None:
    strategy = pipe_sgd(width=width, warmup=0, bits=32)
    at, notice = 0.1 + 0.11 * moment, {"notice": 0.05} if kind is Leave else {}
    on = pr.Simulator(faults=(kind("worker/2", at=at, **notice),), **ON)  # type: ignore[call-arg, arg-type]
    tried = attempt(contribute(True), workers=Crew(1, 4, replace=False), strategy=strategy, on=on)
    assert tried.error is None
    counted = applied(tried)
    rate = (3 / 4) ** 0.5
    assert counted.max() < 4 / 3 + 1e-6, "counted twice"  # of a sum that three make again in place of four
    assert all(counted[rank].min() > rate - 1e-6 for rank in (0, 1, 3)), counted
