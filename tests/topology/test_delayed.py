"""Sums that are used some steps after they were begun."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F
from toy import Toy, network, trained, weights

from polyrhythm import rng
from polyrhythm.codec import ErrorFeedback, TopK
from polyrhythm.consistency import LocalSteps
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.network import Network
from polyrhythm.processes import Processes
from polyrhythm.selection import Named
from polyrhythm.simulator.simulator import Simulator
from polyrhythm.strategy import Exchange, Hierarchical, InGroups, Strategy
from polyrhythm.topology import AllReduce, Delayed, Server

MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
"""24 samples a worker: 6 steps of 8."""


def test_no_delay_is_the_all_reduce() -> None:
    assert torch.equal(weights(MOMENTUM, 3, Strategy(topology=Delayed(AllReduce(), 0))), weights(MOMENTUM, 3, "allreduce"))


@pytest.mark.parametrize("steps", [1, 2, 4, 9])
def test_each_gradient_is_stepped_on_that_many_steps_later(steps: int) -> None:
    """One worker, beside a plain loop that keeps gradients back."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    class Watching(Toy):
        def __call__(self, worker: Any) -> None:
            batches = worker.batches
            worker.batches = lambda *given, **named: (seen.append(batch) or batch for batch in batches(*given, **named))
            super().__call__(worker)

    toy = Watching(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))
    run = trained(toy, 1, Strategy(topology=Delayed(AllReduce(), steps)))
    rng.seed_everything(5, "worker", 0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    kept: list[list[torch.Tensor]] = []

    def step() -> None:
        for parameter, gradient in zip(model.parameters(), kept.pop(0), strict=True):
            parameter.grad = gradient
        optimizer.step()

    for x, y in seen:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        kept.append([parameter.grad.clone() for parameter in model.parameters()])  # type: ignore[union-attr]
        if len(kept) > steps:
            step()
    while kept:
        step()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(run.weights[name], value, rtol=0, atol=1e-6)


def test_real_and_virtual_workers_end_alike() -> None:
    for strategy in (
        Strategy(topology=Delayed(AllReduce(), 2)),
        Strategy(topology=Delayed(AllReduce(), 1), codec=ErrorFeedback(TopK(0.3))),
        Strategy(exchange=Hierarchical(outer=Exchange(topology=Delayed()), groups=InGroups(2))),
    ):
        assert torch.equal(weights(MOMENTUM, 3, strategy, on=Processes()), weights(MOMENTUM, 3, strategy))


def test_the_exchange_is_under_way_while_the_next_step_is_computed() -> None:
    """Where both take about as long, a step takes little more than the longer."""
    latent, slow = Network.uniform("latent", "1 Gbit/s", "2 ms"), Device("slow", 1e6)
    seconds = [
        trained(Toy(epochs=6), 4, Strategy(topology=topology), on=Simulator(network=latent, devices=slow)).summary.virtual_seconds
        for topology in (AllReduce(), Delayed(AllReduce(), 1), Delayed(AllReduce(), 4))
    ]
    assert seconds[1] < 0.75 * seconds[0]
    assert seconds[2] <= seconds[1]


def test_other_topologies_are_refused() -> None:
    with pytest.raises(CompositionError, match="give it AllReduce"):
        Delayed(Server())  # type: ignore[arg-type]
    with pytest.raises(CompositionError, match="before it is made"):
        Delayed(steps=-1)


def test_sums_that_are_under_way_do_not_mix_with_those_of_other_exchanges() -> None:
    two = Strategy(topology=Delayed(AllReduce(), 2), selected=[(Named("0.*"), Exchange(consistency=LocalSteps(3)))])
    assert torch.equal(weights(MOMENTUM, 2, two, on=Processes()), weights(MOMENTUM, 2, two))


def test_late_gradients_inside_groups_are_refused() -> None:
    with pytest.raises(CompositionError, match="use it for the outer exchange"):
        Hierarchical(inner=Exchange(topology=Delayed()), groups=InGroups(2))
