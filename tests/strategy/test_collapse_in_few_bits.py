"""Systems that compress, average in part or pipeline become simpler ones at the end of their settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_collapse import plain
from toy import Toy, trained, weights

from polyrhythm.codec import AveragedMomentum, CosineTopK, DecayingFeedback, Identity, MomentumCorrection, TopK
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import Device
from polyrhythm.hardware.network import Network
from polyrhythm.merge import Elastic, FrozenAdam, OuterOptimizer
from polyrhythm.systems import find
from polyrhythm.topology import AllReduce, AverageWeights, CompressedRing, EightBits, Gossip

ADAM = Toy(lambda parameters: torch.optim.Adam(parameters, lr=0.01))
MOMENTUM = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9))


@pytest.mark.parametrize(
    "strategy",
    [
        find("dgc", ratio=1.0),
        find("powersgd-plus", refresh_period=1, warmup=1),
        find("sparta", ratio=1.0),
        Strategy(codec=DecayingFeedback(CosineTopK(4096), 0.999)),
        Strategy(codec=MomentumCorrection(TopK(1.0))),
        Strategy(consistency=LocalSteps(1), topology=AverageWeights()),
    ],
    ids=repr,
)
def test_at_full_rate_it_is_the_all_reduce(strategy: Strategy) -> None:
    torch.testing.assert_close(weights(Toy(), 3, strategy), weights(Toy(), 3, "allreduce"), rtol=1e-5, atol=1e-6)


def test_a_warmup_that_never_ends_is_adam() -> None:
    endless = find("onebit-adam", warmup=1000)
    torch.testing.assert_close(weights(ADAM, 3, endless), weights(ADAM, 3, "allreduce"), rtol=1e-4, atol=1e-5)


def test_whole_momenta_over_a_frozen_variance_are_the_same_from_workers_or_from_their_mean_gradient() -> None:
    """Momentum is linear: the mean of all momenta is the momentum of the mean gradient, which one worker has on the whole batch."""
    frozen = Strategy(codec=AveragedMomentum(0.9, 3, Identity()), merge=OuterOptimizer(FrozenAdam(3)))
    one, four = weights(Toy(batch_size=32), 1, frozen), weights(Toy(batch_size=8), 4, frozen)
    torch.testing.assert_close(four, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("system", ["sparta", "pipe-sgd"])
def test_one_worker_is_the_plain_loop_bit_for_bit(system: str) -> None:
    assert torch.equal(weights(MOMENTUM, 1, find("pipe-sgd", width=1) if system == "pipe-sgd" else system), plain(MOMENTUM))


@pytest.mark.parametrize("toy", [MOMENTUM, ADAM])
def test_a_pipe_of_width_one_and_a_warmup_that_never_ends_are_lockstep_bit_for_bit(toy: Toy) -> None:
    for options in ({"width": 1}, {"width": 3, "warmup": 1000}):
        assert torch.equal(weights(toy, 3, find("pipe-sgd", bits=32, **options)), weights(toy, 3, "allreduce"))


@pytest.mark.parametrize("bits", [16, 8])
def test_compression_in_the_ring_is_that_of_the_ring_alone_where_nothing_is_late(bits: int) -> None:
    pipe = find("pipe-sgd", width=1, bits=bits)
    ring = pipe.topology.topology  # type: ignore[attr-defined]
    assert torch.equal(weights(MOMENTUM, 3, pipe), weights(MOMENTUM, 3, Strategy(topology=ring)))
    torch.testing.assert_close(weights(MOMENTUM, 3, pipe), weights(MOMENTUM, 3, "allreduce"), rtol=0, atol=0.02)


SWITCHING: dict[str, dict[str, Any]] = {
    "onebit-adam": {"warmup": 2},
    "dgc": {"warmup": 1, "ratio": 0.1, "clip_norm": 1.0},
    "powersgd-plus": {"warmup": 1, "refresh_period": 2, "rank": 1},
    "pipe-sgd": {"warmup": 2, "bits": 8},
    "signsgd": {"momentum": 0.9},
}


@pytest.mark.parametrize("system", SWITCHING)
def test_after_the_warmup_too_both_runtimes_give_the_same_bits(system: str) -> None:
    strategy = find(system, **SWITCHING[system])
    assert torch.equal(weights(MOMENTUM, 2, strategy, Processes()), weights(MOMENTUM, 2, strategy))


def test_a_native_sum_does_not_take_the_place_of_a_ring_that_rounds() -> None:
    rounding = Strategy(topology=AllReduce(CompressedRing(EightBits())))
    assert torch.equal(weights(MOMENTUM, 3, rounding, Processes()), weights(MOMENTUM, 3, rounding))
    assert not torch.equal(weights(MOMENTUM, 3, rounding), weights(MOMENTUM, 3, "allreduce"))


def test_a_step_of_the_pipe_takes_little_more_than_the_longer_of_computing_and_communicating() -> None:
    latent, slow = Network.uniform("latent", "1 Gbit/s", "2 ms"), Device("slow", 1e6)

    def seconds(strategy: str | Strategy, network: Network, device: Device) -> float:
        long, short = (trained_seconds(Toy(epochs=n), strategy, network, device) for n in (8, 4))
        return long - short

    instant, quick = Network.uniform("instant", "1000 Gbit/s", "0 s"), Device("quick", 1e15)
    pipe = find("pipe-sgd", warmup=0, bits=32)
    computing, communicating = seconds("allreduce", instant, slow), seconds("allreduce", latent, quick)
    assert seconds(pipe, latent, slow) <= 1.1 * max(computing, communicating)
    assert seconds("allreduce", latent, slow) >= 0.9 * (computing + communicating)


def trained_seconds(toy: Toy, strategy: str | Strategy, network: Network, device: Device) -> float:
    """Until all of four workers have ended."""
    return trained(toy, 4, strategy, Simulator(network=network, devices=device)).summary.virtual_seconds


def test_weights_that_are_averaged_over_all_are_not_mixed_in_pairs() -> None:
    with pytest.raises(CompositionError, match=r"needs a merge of the sum of all workers' weights, and Elastic mixes the weights of each"):
        Strategy(consistency=LocalSteps(1), topology=AverageWeights(), merge=Elastic())
    assert Strategy(consistency=LocalSteps(1), topology=Gossip(), merge=Elastic()).merge == Elastic()


def test_bits_that_no_ring_has_are_refused() -> None:
    with pytest.raises(CompositionError, match=r"pipe-sgd\(bits=4\) has no such words: give 32"):
        find("pipe-sgd", bits=4)
