"""The exchanges of one step are under way at the same time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from toy import SLOW, Toy, trained

from polyrhythm.codec import ErrorFeedback, OneBit, PerTensor, TopK
from polyrhythm.consistency import Bounded, LocalSteps
from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import DivergedError
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Sum
from polyrhythm.parameters import Named
from polyrhythm.topology import AllReduce, Bucketed, Direct, Ring, Server

MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
FIRST, SECOND, THIRD = Named("0.weight"), Named("0.bias"), Named("2.weight")
RANKED = PerTensor(ErrorFeedback(TopK(0.5)))
STEPS = 3


class Halves(nn.Module):
    """Two parameters of equal size, each of which a selection can take."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (nn.Parameter(torch.zeros(1000)) for _ in range(2))


def halves(worker: Any) -> None:
    model = Halves()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    worker.report(began=0.0)
    for _ in range(STEPS):
        worker.count(1)
        model.a.grad, model.b.grad = torch.ones(1000), torch.ones(1000)
        optimizer.step()


def seconds(network: Network, **strategy: Any) -> float:
    outcome = run(halves, workers=3, strategy=Strategy(**strategy), on=Simulator(network=network)).outcome
    began = max(event.time for event in outcome.events if isinstance(event, Reported))
    return (outcome.summary.virtual_seconds - began) / STEPS


LATENT = Network.uniform("latent", "1 Gbit/s", "20 ms")
NARROW = Network.uniform("narrow", "1 Mbit/s", "0 ms")


@pytest.mark.parametrize("other", [Direct(), Ring()], ids=repr)
def test_where_latency_is_all_two_exchanges_take_as_long_as_the_longer(other: Any) -> None:
    latencies = {Direct(): 2, Ring(): 4}
    both = seconds(LATENT, selected=[(Named("a"), Exchange(topology=AllReduce(Direct())))], topology=AllReduce(other))
    assert both == pytest.approx(latencies[other] * 0.020, rel=0.02)


def test_where_bandwidth_is_all_they_share_it() -> None:
    one = seconds(NARROW, topology=AllReduce(Direct()))
    both = seconds(NARROW, selected=[(Named("a"), Exchange(topology=AllReduce(Direct())))], topology=AllReduce(Direct()))
    assert both == pytest.approx(one, rel=0.03)


MIXED = {
    "server and sums": Strategy(selected=[(FIRST, Exchange(topology=Server(2)))], topology=AllReduce(Direct())),
    "packets and sums": Strategy(
        selected=[(FIRST, Exchange(codec=RANKED)), (SECOND, Exchange(codec=PerTensor(ErrorFeedback(OneBit()))))], topology=AllReduce()
    ),
    "sums alone": Strategy(selected=[(FIRST, Exchange()), (THIRD, Exchange(topology=AllReduce(Direct())))]),
    "buckets": Strategy(selected=[(FIRST, Exchange(topology=Bucketed())), (THIRD, Exchange(topology=Bucketed()))], topology=Server()),
    "local steps": Strategy(selected=[(FIRST, Exchange(consistency=LocalSteps(2)))], topology=Server()),
}


@pytest.mark.parametrize("strategy", MIXED.values(), ids=MIXED)
def test_both_runtimes_give_the_same_bits_and_bytes(strategy: Strategy) -> None:
    virtual, slow, real = (
        trained(MOMENTUM, 3, strategy, on) for on in (Simulator(network=Instant()), Simulator(network=SLOW), Processes(cuda=False))
    )
    assert virtual.summary.weights_sha256 == real.summary.weights_sha256 == slow.summary.weights_sha256
    assert (virtual.summary.bytes_sent, virtual.summary.messages_sent) == (real.summary.bytes_sent, real.summary.messages_sent)


@pytest.mark.parametrize("strategy", MIXED.values(), ids=MIXED)
def test_simultaneous_events_in_any_order_change_no_bit(strategy: Strategy) -> None:
    digests = {
        trained(MOMENTUM, 4, strategy, Simulator(network=Instant(), shuffle_ties=ties)).summary.weights_sha256 for ties in (None, 1, 2)
    }
    assert len(digests) == 1


@pytest.mark.parametrize("on", [Simulator(network=SLOW), Processes(cuda=False)], ids=["simulator", "processes"])
def test_what_is_not_finite_in_one_of_them_ends_the_run_as_before(on: Any) -> None:
    def diverges(worker: Any) -> None:
        model = Halves()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for step in range(2):
            worker.count(1)
            model.a.grad, model.b.grad = torch.ones(1000), torch.full((1000,), float("nan") if step else 1.0)
            optimizer.step()

    strategy = Strategy(selected=[(Named("a"), Exchange(topology=Server()))])
    with pytest.raises(DivergedError, match="not finite at step 2"):
        run(diverges, workers=2, strategy=strategy, on=on)


def test_all_that_was_produced_is_applied_by_each() -> None:
    strategy = Strategy(
        selected=[(Named("a"), Exchange(consistency=LocalSteps(1, Bounded(2)), topology=Server(2), merge=Sum()))], merge=Sum()
    )
    outcome = run(halves, workers=4, strategy=strategy, on=Simulator(network=SLOW))
    for name in ("a", "b"):
        torch.testing.assert_close(outcome.weights[name], torch.full((1000,), -0.1 * 4 * STEPS))
