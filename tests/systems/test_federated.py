"""Federated averaging: who is drawn computes, weights are by samples, and drawing all of them is local SGD."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from toy import SLOW, Toy, trained, weights

import polyrhythm as pr
from polyrhythm.core.kernel.events import Computed, Merged, Stepped
from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError, WorkloadError
from polyrhythm.systems import find

TOY = Toy(epochs=6)  # 4 workers: 3 steps of 8 samples an epoch


def test_a_fraction_of_all_is_local_sgd_bit_for_bit() -> None:
    assert torch.equal(weights(TOY, 4, find("fedavg", fraction=1.0, period=3)), weights(TOY, 4, find("sparknet", period=3)))


def test_no_pull_is_plain_averaging_bit_for_bit() -> None:
    assert torch.equal(weights(TOY, 4, find("fedprox", period=3, proximal_weight=0.0)), weights(TOY, 4, find("fedavg", period=3)))


def test_half_of_the_workers_compute_in_a_round_and_the_others_cost_nothing() -> None:
    full, half = (trained(TOY, 4, find("fedavg", fraction=f, period=3), pr.Simulator(network=SLOW)) for f in (1.0, 0.5))
    computed = Counter(event.actor for event in half.outcome.events if isinstance(event, Computed) and event.actor.startswith("worker"))
    merged = [event.staleness for event in half.outcome.events if isinstance(event, Merged)]
    assert sum(computed.values()) == 4 * 18 / 2
    assert half.summary.samples == full.summary.samples / 2
    assert [len(late) for late in merged] == [2] * 6
    assert half.summary.bytes_sent < 0.65 * full.summary.bytes_sent


def test_every_worker_counts_all_steps_whether_it_takes_them_or_not() -> None:
    half = trained(TOY, 4, find("fedavg", period=3))
    steps = Counter(event.actor for event in half.outcome.events if isinstance(event, Stepped))
    assert steps == {f"worker/{rank}": 18 for rank in range(4)}


def own_shares(worker: Any) -> None:
    """Worker r steps on r + 1 samples, all of them of the gradient r + 1, and skips what it is configured to."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
    for _ in range(2):
        worker.count(worker.rank + 1)
        optimizer.zero_grad()
        (model.weight * (worker.rank + 1)).sum().backward()
        optimizer.step()


def test_updates_are_weighted_by_samples() -> None:
    run = pr.run(own_shares, workers=2, strategy=find("fedavg", fraction=1.0, period=1), on=pr.Simulator(network=pr.Instant()))
    assert run.weights["weight"].item() == pytest.approx(-2 * (1 * 1 + 2 * 2) / 3)


def test_a_loop_without_batches_passes_steps_over_too() -> None:
    run = pr.run(own_shares, workers=2, strategy=find("fedavg", fraction=0.5, period=1), on=pr.Simulator(network=pr.Instant(), seed=1))
    assert -run.weights["weight"].item() in (2.0, 3.0, 4.0)  # one of both in each round
    assert run.summary.samples in (2, 3, 4)


def test_several_batches_a_step_are_refused() -> None:
    def accumulates(worker: Any) -> None:
        model = torch.nn.Linear(10, 3)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for k, (x, _) in enumerate(worker.batches((torch.zeros(96, 10), torch.zeros(96)), batch_size=8)):
            model(x).sum().backward()
            if k % 2:
                optimizer.step()

    with pytest.raises(WorkloadError, match="step after every batch"):
        pr.run(accumulates, workers=3, strategy="fedavg", on=pr.Simulator(network=pr.Instant()))


def test_a_worker_passes_over_all_of_a_step_or_nothing() -> None:
    with pytest.raises(CompositionError, match="the same consistency"):
        Strategy(
            selected=((pr.parameters.Modules("Linear"), pr.Exchange()),),
            consistency=pr.consistency.SampledClients(0.5),
            topology=pr.topology.Server(),
        )


@pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5, float("nan")])
def test_a_fraction_that_is_none_is_refused(fraction: float) -> None:
    with pytest.raises(CompositionError, match="more than 0 and at most 1"):
        find("fedavg", fraction=fraction)
