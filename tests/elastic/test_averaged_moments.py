"""A worker that is lost while optimizers' states are averaged: the others have completed the exchange before it, or make both again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from elastic.test_contributions import applied, contribute
from polyrhythm import Crew, Simulator, Worker
from polyrhythm.codec import ErrorFeedback, Identity, TopK
from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import attempt
from polyrhythm.hardware.faults import Crash
from polyrhythm.systems import dl4j_averaging

PERIOD, WORKERS, MOMENTS = 4, 4, 12
KEPT = Crew(1, WORKERS, replace=False)


def averaging(codec: Codec) -> Strategy:
    strategy = dl4j_averaging(period=PERIOD)
    return replace(strategy, codec=codec)


def crashes(strategy: Strategy, who: int) -> list[Crash]:
    """A crash of worker `who` at each of some moments of the first exchange."""
    found = attempt(contribute(scaled=True), workers=WORKERS, strategy=strategy, on=Simulator())
    steps = {event.clock: event.time for event in found.outcome.events if isinstance(event, Stepped) and event.actor == "worker/0"}
    begin, end = steps[PERIOD - 1], steps[PERIOD]
    return [Crash(f"worker/{who}", at=begin + (end - begin) * k / MOMENTS) for k in range(MOMENTS)]


@pytest.mark.parametrize("who", [0, 3])
@pytest.mark.parametrize("codec", [Identity(), ErrorFeedback(TopK(0.005))], ids=repr)
def test_no_contribution_counts_twice(codec: Codec, who: int) -> None:
    for crash in crashes(averaging(codec), who):
        found = attempt(contribute(scaled=True), workers=KEPT, strategy=averaging(codec), on=Simulator(faults=(crash,)))
        assert found.error is None
        assert applied(found).max() < 1.9, f"{crash}: counted twice"  # of an update that 3 make again in place of 4 there is 4 / 3


@pytest.mark.parametrize("who", [0, 3])
def test_survivors_end_with_the_same_weights_and_moments(who: int) -> None:
    def train(worker: Worker) -> None:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
        for step in worker.range(2 * PERIOD):
            worker.count(1)
            optimizer.zero_grad()
            model(torch.full((1, 3), 1.0 + worker.rank + step)).square().sum().backward()
            optimizer.step()
        ends.append([*model.parameters(), *(each["momentum_buffer"] for each in optimizer.state.values())])

    for crash in crashes(averaging(Identity()), who):
        ends: list[list[torch.Tensor]] = []
        found = attempt(train, workers=KEPT, strategy=averaging(Identity()), on=Simulator(faults=(crash,)))
        assert found.error is None
        first, *others = ends
        assert others
        assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True)), crash
