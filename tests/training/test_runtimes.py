"""The runtime law: real processes and virtual time give the same weights, bit for bit, and the same bytes on the wire."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from kinds import fewest
from torch import nn
from toy import SLOW, Toy, remaining, trained

from polyrhythm import systems
from polyrhythm.codec import ErrorFeedback, Identity, LowRank, OneBit, PerTensor, Striped, TopK
from polyrhythm.core.kernel.job import Runtime
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Device
from polyrhythm.merge import StalenessScaled, Sum
from polyrhythm.topology import AllReduce, Bucketed, Ring, Tree

from .scenes import IN_CYCLES

TOYS = {
    "momentum": Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9)),
    "adam": Toy(lambda parameters: torch.optim.Adam(parameters, lr=0.01)),
}
BUCKETED = {
    repr(codec): Strategy(topology=Bucketed(AllReduce(algorithm), nbytes=32), codec=codec)
    for algorithm, codec in (
        (Ring(), Identity()),
        (Tree(), ErrorFeedback(TopK(0.2))),
        (Ring(), PerTensor(LowRank(1), rest=TopK(0.5))),  # asks for sums after packets
        (Ring(), Striped(ErrorFeedback(OneBit()))),
    )
}
ORDERLY = [name for name in systems.SYSTEMS if not systems.find(name).order_matters]
OTHERS = [name for name in systems.SYSTEMS if systems.find(name).order_matters]


FEW = [(2, "momentum")]
"""Workers and toys with which every system is tried; the others are left to the long tests."""
CASES = [*FEW, *(pytest.param(n, toy, marks=pytest.mark.long) for n in (1, 2, 3, 4) for toy in TOYS if (n, toy) not in FEW)]


@pytest.mark.parametrize(("workers", "toy"), CASES)
@pytest.mark.parametrize("codec", BUCKETED)
def test_buckets_give_the_same_bits_and_bytes_in_both_runtimes(codec: str, workers: int, toy: str) -> None:
    virtual = trained(TOYS[toy], workers, BUCKETED[codec], Simulator(network=SLOW)).summary
    real = trained(TOYS[toy], workers, BUCKETED[codec], Processes()).summary
    assert real.weights_sha256 == virtual.weights_sha256
    assert (real.bytes_sent, real.messages_sent) == (virtual.bytes_sent, virtual.messages_sent)
    assert (real.steps, real.samples, real.final) == (virtual.steps, virtual.samples, virtual.final)


CYCLES_LATER = (Device("quick", 1e9), Device("slow", 1e4))
"""Devices on which the tensors of a step are ready in one cycle, and in several."""


@pytest.mark.parametrize("system", [*fewest(name for name in ORDERLY if name not in IN_CYCLES), *IN_CYCLES])
def test_only_systems_in_cycles_send_more_where_steps_take_longer(system: str) -> None:
    quick, slow = (trained(TOYS["momentum"], 2, system, Simulator(network=SLOW, devices=device)).summary for device in CYCLES_LATER)
    assert quick.weights_sha256 == slow.weights_sha256
    assert (quick.messages_sent < slow.messages_sent) is (system in IN_CYCLES)
    assert (quick.bytes_sent < slow.bytes_sent) is (system in IN_CYCLES)


@pytest.mark.parametrize(("workers", "toy"), CASES)
@pytest.mark.parametrize("system", fewest(ORDERLY))
def test_both_runtimes_give_the_same_bits_and_bytes(system: str, workers: int, toy: str) -> None:
    virtual = trained(TOYS[toy], workers, system, Simulator(network=SLOW)).summary
    real = trained(TOYS[toy], workers, system, Processes()).summary
    assert real.weights_sha256 == virtual.weights_sha256
    if system not in IN_CYCLES:
        assert (real.bytes_sent, real.messages_sent) == (virtual.bytes_sent, virtual.messages_sent)
    assert (real.steps, real.samples, real.final) == (virtual.steps, virtual.samples, virtual.final)


def awkward(worker: Any) -> None:
    """Each worker has gradients that are missing, transposed, shared or written to by hand; the optimizer finds them in the model.

    One worker alone keeps its own gradients, as without Polyrhythm, and PyTorch accumulates into none whose elements share memory.
    """
    model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    draw = torch.Generator().manual_seed(worker.rank)
    for step in range(4):
        worker.count(1)
        optimizer.zero_grad(set_to_none=step % 2 == 0 or worker.workers == 1)
        model(torch.randn(5, 6, generator=draw)).square().mean().backward()
        model[0].weight.grad = model[1].weight.grad.detach().t()
        model[2].weight.grad = model[3].weight.grad
        model[2].bias.grad = model[3].bias.grad.detach()[:1].expand(6)
        if worker.rank == 1:
            model[0].bias.grad = None
        both = torch.randn(12, generator=draw)
        model[1].bias.grad, model[3].bias.grad = both[:6], both[3:9]
        optimizer.step()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_gradients_that_lie_awkwardly_are_exchanged_as_their_values_say(workers: int) -> None:
    virtual = run(awkward, workers=workers, strategy="allreduce", on=Simulator(network=SLOW), seed=1).summary
    real = run(awkward, workers=workers, strategy="allreduce", on=Processes(), seed=1).summary
    assert real.weights_sha256 == virtual.weights_sha256


def keeping(worker: Any) -> None:
    """A momentum by hand: what the optimizer leaves in a gradient is there at the next step."""
    model = nn.Linear(6, 6)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    kept = [torch.zeros_like(parameter) for parameter in model.parameters()]
    draw = torch.Generator().manual_seed(worker.rank)
    for _ in range(4):
        worker.count(1)
        optimizer.zero_grad()
        model(torch.randn(5, 6, generator=draw)).square().mean().backward()
        for parameter, momentum in zip(model.parameters(), kept, strict=True):
            parameter.grad = momentum.mul_(0.9).add_(parameter.grad)
        optimizer.step()
        assert all(p.grad.data_ptr() == momentum.data_ptr() for p, momentum in zip(model.parameters(), kept, strict=True))


MERGED = {"allreduce": "allreduce", "tree": "tree", "sum": Strategy(merge=Sum()), "staleness": Strategy(merge=StalenessScaled())}


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("strategy", MERGED.values(), ids=MERGED)
def test_the_merged_gradient_lies_where_the_workers_own_was_in_both_runtimes(strategy: str | Strategy, workers: int) -> None:
    virtual = run(keeping, workers=workers, strategy=strategy, on=Simulator(network=SLOW), seed=1).summary
    real = run(keeping, workers=workers, strategy=strategy, on=Processes(), seed=1).summary
    assert real.weights_sha256 == virtual.weights_sha256


LATE = ("li-ps",)
"""A worker takes over what has come when it has come, up to its delay."""
UNASKED = ("rudra-adv-star",)
"""Nobody waits for weights that come unasked."""
AWAITED = [name for name in OTHERS if name not in (*LATE, *UNASKED) and systems.find(name).exchange.agreement.consistency.traits.waits]


@pytest.mark.parametrize("system", [*LATE, *UNASKED])
def test_what_one_worker_takes_over_when_it_comes_depends_on_the_network(system: str) -> None:
    slow, fast = (trained(TOYS["momentum"], 1, system, Simulator(network=network)).summary for network in (SLOW, "lan"))
    assert slow.weights_sha256 != fast.weights_sha256


@pytest.mark.parametrize("system", fewest(AWAITED))
def test_one_worker_gives_the_same_bits_even_where_order_matters(system: str) -> None:
    virtual = trained(TOYS["momentum"], 1, system, Simulator(network=SLOW)).summary
    assert trained(TOYS["momentum"], 1, system, Processes()).summary.weights_sha256 == virtual.weights_sha256


LEARNT = 0.75 * math.log(3)
"""The loss after training: a model that has learnt nothing of three classes has ln 3 or more. The largest of five seeds was 0.58 ln 3,
except of those below."""
SLOWLY = ("strom", "dl4j-sharing", "li-ps", "rudra-adv-star")
"""Systems that need four times as many epochs, which is asserted: the first three send quanta or filter, the last has plain SGD.
The largest of five seeds was 0.74 ln 3, of the last."""
WITHOUT_MOMENTUM = ("rudra-adv-star",)
"""Weights that come unasked are so stale over a slow network that momentum makes training diverge, which is asserted."""
PLAIN = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.02))


def loss_after(epochs: int, system: str, on: Runtime, toy: Toy = TOYS["momentum"]) -> float:
    """The remaining loss of three workers, which have seen all samples in every epoch."""
    done = trained(replace(toy, epochs=epochs), 3, system, on)
    if not systems.find(system).shuffle.takes:  # else their measured speeds decide, as test_timing.py asserts
        assert done.summary.samples == epochs * 96
    return remaining(done)


@pytest.mark.parametrize("system", fewest(OTHERS))
def test_where_order_matters_both_runtimes_learn(system: str) -> None:
    toy, epochs = PLAIN if system in WITHOUT_MOMENTUM else TOYS["momentum"], 48 if system in SLOWLY else 12
    for runtime in (Processes(), Simulator(network=SLOW)):
        assert loss_after(epochs, system, runtime, toy) < LEARNT


@pytest.mark.parametrize("system", SLOWLY)
def test_who_learns_slowly_needs_more_epochs(system: str) -> None:
    toy = PLAIN if system in WITHOUT_MOMENTUM else TOYS["momentum"]
    assert loss_after(12, system, Simulator(network=SLOW), toy) > 0.6 * math.log(3)


@pytest.mark.parametrize("system", WITHOUT_MOMENTUM)
def test_who_is_trained_without_momentum_diverges_with_it(system: str) -> None:
    assert loss_after(12, system, Simulator(network=SLOW)) > math.log(3)


@pytest.mark.parametrize("system", fewest(systems.SYSTEMS))
def test_the_same_seed_gives_the_same_record_byte_for_byte(system: str) -> None:
    network = "lan" if systems.find(system).shares_memory else "wan-3"
    runs = [trained(TOYS["momentum"], 5, system, Simulator(network=network, seed=2)).outcome for _ in range(2)]
    assert runs[0].summary == runs[1].summary
    assert runs[0].events == runs[1].events
