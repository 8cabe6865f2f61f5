"""Workers that join a run, and are interrupted by the loss of another before they have taken a step."""

from __future__ import annotations

import pytest
import torch

import polyrhythm as pr
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import AnyEvent, CrewChanged
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware.faults import Crash, Fault, Join
from polyrhythm.systems import resolve

STEPS = 8


def train(worker: pr.Worker) -> None:
    model = torch.nn.Linear(6, 3)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.05))
    for step in worker.range(STEPS):
        worker.count(8)
        optimizer.zero_grad()
        model(torch.full((8, 6), float(step))).sum().backward()
        optimizer.step()


def changed(system: str, *faults: Fault, crew: Crew = Crew(1, 3)) -> list[AnyEvent]:  # noqa: B008 (a frozen value)
    tried = attempt(train, workers=crew, strategy=resolve(system), on=pr.Simulator(network="lan", faults=faults))
    assert tried.error is None
    assert tried.outcome.summary.steps == STEPS
    return [event for event in tried.outcome.events if isinstance(event, CrewChanged)]


@pytest.mark.parametrize("system", ["allreduce", "ssp"])
def test_a_loss_at_any_moment_of_the_first_step_of_a_newcomer_is_made_good(system: str) -> None:
    lost = Crash("worker/0", 0.002)
    joined = changed(system, lost)[-1].time
    for moment in range(12):
        assert len(changed(system, lost, Crash("worker/1", joined + 1e-6 + moment * 5e-5))) > 2


def test_a_newcomer_begins_at_its_own_cut_and_not_at_the_one_a_step_before() -> None:
    crew, join = Crew(1, 4, replace=False, start=2), Join(at=0.002)
    first = changed("gossipgrad", join, crew=crew)[-1].time
    joins = join, Join(at=first + 1e-4)
    second = changed("gossipgrad", *joins, crew=crew)[-1].time
    for moment in range(8):  # while the others enter the view
        changed("gossipgrad", *joins, Crash("worker/1", second - 1e-4 + moment * 4e-5), crew=crew)
