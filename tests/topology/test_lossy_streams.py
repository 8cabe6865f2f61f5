"""Weights that are streamed in datagrams."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from toy import Toy, remaining, trained

from polyrhythm.consistency import Asynchronous, LocalSteps
from polyrhythm.core.kernel.events import Undelivered
from polyrhythm.core.kernel.view import View
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import Crash, DatagramFaults
from polyrhythm.merge import Sum
from polyrhythm.topology import LossyStreams
from polyrhythm.topology.datagrams.weight_ranges import WeightRanges

STEPS, NUMEL = 20, 60
TOY = Toy(epochs=12)


class Several(nn.Module):
    """Weights that begin at 0 and whose gradients are always -1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(NUMEL))

    def forward(self) -> torch.Tensor:
        return -self.weight.sum()


def counts(worker: Any) -> None:
    """Every step adds 1 to each weight."""
    model, optimizer = worker.attach(model := Several(), torch.optim.SGD(model.parameters(), lr=1.0))
    for _ in range(STEPS):
        worker.count(1)
        optimizer.zero_grad()
        model().backward()
        optimizer.step()


def counted(on: Any, refresh: int = 3, workers: int = 3) -> tuple[torch.Tensor, list[Undelivered]]:
    strategy = Strategy(consistency=LocalSteps(1, Asynchronous()), topology=LossyStreams(40, refresh), merge=Sum())
    done = run(counts, workers=workers, strategy=strategy, on=on)
    return done.weights["weight"], [event for event in done.outcome.events if isinstance(event, Undelivered)]


def under(network: Any = "lan", refresh: int = 3, **fault: Any) -> tuple[torch.Tensor, list[Undelivered]]:
    return counted(Simulator(network=network, faults=(DatagramFaults(**fault),)), refresh)


@pytest.mark.parametrize("network", ["lan", "slow", Instant()], ids=str)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_without_loss_everything_that_anyone_did_is_in_the_result_once(network: Any, workers: int) -> None:
    weights, ledger = counted(Simulator(network=network), workers=workers)
    assert torch.equal(weights, torch.full((NUMEL,), float(workers * STEPS)))
    assert [(each.lost, each.sent - each.arrived) for each in ledger] == [(0.0, 0)] * workers


def test_the_ledger_shows_what_was_lost_to_the_last_unit() -> None:
    weights, ledger = under(loss=0.2)
    missing = 3 * STEPS - weights
    assert missing.max() > 0
    assert (missing >= 0).all()
    assert sum(each.lost**2 for each in ledger) == pytest.approx(float(missing.norm()) ** 2, rel=1e-6)
    assert sum(each.produced**2 for each in ledger) == pytest.approx(NUMEL * (2 * STEPS) ** 2, rel=1e-6)
    assert 0.1 < 1 - sum(each.arrived for each in ledger) / sum(each.sent for each in ledger) < 0.3


def test_late_copies_of_weights_change_nothing_and_late_copies_of_deltas_count_twice() -> None:
    plain, _ = counted(Simulator(network="lan"))
    weights, ledger = under(duplicated=0.5, delay=1e-4, topic="weights")
    assert torch.equal(weights, plain)
    assert sum(each.superseded for each in ledger) > 0
    doubled, ledger = under(duplicated=0.5, delay=1e-4, topic="delta")
    assert (doubled > plain).any()
    assert (doubled >= plain).all()
    assert sum(each.lost**2 for each in ledger) == pytest.approx(float((doubled - plain).norm()) ** 2, rel=1e-6)


def test_weights_bound_how_far_workers_are_apart() -> None:
    """Whoever loses many deltas is as far from the others as the last weights that came are old."""
    apart = {}
    for refresh in (2, 1000):
        ended: list[torch.Tensor] = []

        def train(worker: Any, ended: list[torch.Tensor] = ended) -> None:
            model, optimizer = worker.attach(model := Several(), torch.optim.SGD(model.parameters(), lr=1.0))
            for _ in range(3 * STEPS):
                worker.count(1)
                optimizer.zero_grad()
                model().backward()
                optimizer.step()
            ended.append(model.weight.detach().clone())

        strategy = Strategy(consistency=LocalSteps(1, Asynchronous()), topology=LossyStreams(40, refresh), merge=Sum())
        run(train, workers=3, strategy=strategy, on=Simulator(network="lan", faults=(DatagramFaults(loss=0.3, topic="delta"),)))
        apart[refresh] = max(float((one - other).abs().max()) for one in ended for other in ended)
    assert apart[2] < apart[1000] / 2


def test_it_learns_under_loss_and_replays_bit_for_bit() -> None:
    on = Simulator(network="lan", faults=(DatagramFaults(loss=0.05, duplicated=0.05, late=0.05, delay=1e-3),))
    first, again = (trained(TOY, 3, "dogwild", on) for _ in range(2))
    assert first.summary == again.summary
    assert first.summary.final["loss"] < 0.5, "the loss of guessing is ln 3, about 1.1"


def test_real_workers_learn_together_and_end_alike() -> None:
    done = trained(TOY, 2, "dogwild", Processes())
    assert remaining(done) < 0.5
    ledger = [event for event in done.outcome.events if isinstance(event, Undelivered)]
    assert len(ledger) == 2
    assert all(0 < each.arrived <= each.sent for each in ledger)


def test_the_others_go_on_without_a_lost_worker() -> None:
    done = trained(TOY, 3, "dogwild", Simulator(network="lan", faults=(Crash("worker/1", at=0.004),)))
    assert done.summary.lost == ["worker/1"]
    assert done.summary.final["loss"] < 0.6


def test_ranges_cover_the_vector_and_each_has_an_owner_that_is_there() -> None:
    members = ("worker/0", "worker/1", "worker/2")
    for numel, most in ((0, 4), (1, 4), (2, 4), (10, 4), (100, 7)):
        ranges = WeightRanges(numel, most, members)
        vector = torch.arange(numel)
        assert torch.equal(torch.cat([vector[:0], *(ranges.of(vector, k) for k in range(len(ranges)))]), vector)
        assert all(0 < end - begin <= most for begin, end in ranges.bounds)
        for lost in ([], ["worker/1"], ["worker/0", "worker/2"]):
            view = View.of(members).without(*lost)
            owned = [number for name in view.members for number in ranges.owned(name, view)]
            assert sorted(owned) == list(range(len(ranges)))


@pytest.mark.parametrize("given", [{"nbytes": 0}, {"nbytes": 60_000}, {"nbytes": 8.0}, {"refresh": 0}, {"refresh": True}])
def test_settings_without_meaning_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(CompositionError, match=r"LossyStreams\((nbytes|refresh)=.*give a"):
        LossyStreams(**given)
