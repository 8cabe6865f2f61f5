"""The runtime law: real processes and virtual time give the same weights, bit for bit, and the same bytes on the wire."""

from __future__ import annotations

import pytest
import torch
from toy import SLOW, Toy, trained

from polyrhythm import systems
from polyrhythm.codec import ErrorFeedback, Identity, LowRank, OneBit, PerTensor, Striped, TopK
from polyrhythm.processes import Processes
from polyrhythm.simulator import Simulator
from polyrhythm.strategy import Strategy
from polyrhythm.topology import AllReduce, Bucketed, Ring, Tree

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


@pytest.mark.parametrize("toy", TOYS)
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("codec", BUCKETED)
def test_buckets_give_the_same_bits_and_bytes_in_both_runtimes(codec: str, workers: int, toy: str) -> None:
    virtual = trained(TOYS[toy], workers, BUCKETED[codec], Simulator(network=SLOW)).summary
    real = trained(TOYS[toy], workers, BUCKETED[codec], Processes()).summary
    assert real.weights_sha256 == virtual.weights_sha256
    assert (real.bytes_sent, real.messages_sent) == (virtual.bytes_sent, virtual.messages_sent)
    assert (real.steps, real.samples, real.final) == (virtual.steps, virtual.samples, virtual.final)


@pytest.mark.parametrize("toy", TOYS)
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("system", ORDERLY)
def test_both_runtimes_give_the_same_bits_and_bytes(system: str, workers: int, toy: str) -> None:
    virtual = trained(TOYS[toy], workers, system, Simulator(network=SLOW)).summary
    real = trained(TOYS[toy], workers, system, Processes()).summary
    assert real.weights_sha256 == virtual.weights_sha256
    assert (real.bytes_sent, real.messages_sent) == (virtual.bytes_sent, virtual.messages_sent)
    assert (real.steps, real.samples, real.final) == (virtual.steps, virtual.samples, virtual.final)


@pytest.mark.parametrize("system", OTHERS)
def test_one_worker_gives_the_same_bits_even_where_order_matters(system: str) -> None:
    virtual = trained(TOYS["momentum"], 1, system, Simulator(network=SLOW)).summary
    assert trained(TOYS["momentum"], 1, system, Processes()).summary.weights_sha256 == virtual.weights_sha256


@pytest.mark.parametrize("system", OTHERS)
def test_where_order_matters_both_runtimes_learn(system: str) -> None:
    toy = Toy(TOYS["momentum"].make, epochs=12)
    first = trained(Toy(TOYS["momentum"].make, epochs=1), 3, system, Processes()).summary.final["loss"]
    for runtime in (Processes(), Simulator(network=SLOW)):
        summary = trained(toy, 3, system, runtime).summary
        assert summary.final["loss"] < first
        assert summary.samples == 12 * 96


@pytest.mark.parametrize("system", systems.SYSTEMS)
def test_the_same_seed_gives_the_same_record_byte_for_byte(system: str) -> None:
    runs = [trained(TOYS["momentum"], 5, system, Simulator(network="wan-3", seed=2)).outcome for _ in range(2)]
    assert runs[0].summary == runs[1].summary
    assert runs[0].events == runs[1].events
