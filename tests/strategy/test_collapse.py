"""Every system becomes another, simpler one at the end of its settings."""

from __future__ import annotations

import dataclasses
from itertools import permutations
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from toy import SAMPLES, SLOW, Toy, data, network, weights

from polyrhythm.codec import ErrorFeedback, Identity, Striped, TopK
from polyrhythm.consistency import Asynchronous, Bounded, BulkSynchronous, LocalSteps, SoftSync
from polyrhythm.core import rng
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.merge import Elastic, Mean, Nesterov, OuterOptimizer, StalenessScaled, Sum
from polyrhythm.topology import ALGORITHMS, AllReduce, AllToAll, Gossip, Server

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.005),
}
UNEVEN = Fleet((Profile("measured", (0.01,)),), (Mixed((1.0, 0.6, 0.2)),))
each_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS)


def plain(toy: Toy, seed: int = 5, batch_size: int | None = None) -> torch.Tensor:
    """The same training as a single-process loop without Polyrhythm."""
    rng.seed_everything(seed, "worker", 0)
    model, size = network(), batch_size or toy.batch_size
    optimizer = toy.make(model.parameters())
    x, y = data()
    for epoch in range(toy.epochs):
        order = rng.stream(seed, "shuffle", epoch).permutation(SAMPLES)
        for start in range(0, SAMPLES, size):
            part = order[start : start + size]
            optimizer.zero_grad()
            F.cross_entropy(model(x[part]), y[part]).backward()
            if toy.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), toy.clip_norm)
            optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@each_optimizer
@pytest.mark.parametrize("system", ["single", "allreduce", "direct", "tree", "softsync", "gossipgrad", "hogwild"])
def test_one_worker_is_the_plain_loop_bit_for_bit(system: str, optimizer: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer])
    if system == "gossipgrad":  # its samples are dealt out once, so only the first epoch has the plain loop's order
        toy = dataclasses.replace(toy, epochs=1)
    assert torch.equal(weights(toy, 1, system), plain(toy))


@each_optimizer
@pytest.mark.parametrize("system", ["ssp", "sparknet"])
def test_one_worker_with_updates_is_the_plain_loop_to_rounding(system: str, optimizer: str) -> None:
    torch.testing.assert_close(weights(Toy(OPTIMIZERS[optimizer]), 1, system), plain(Toy(OPTIMIZERS[optimizer])), rtol=1e-5, atol=1e-6)


@each_optimizer
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=repr)
def test_allreduce_at_four_workers_is_one_process_on_the_whole_batch(algorithm, optimizer: str) -> None:  # type: ignore[no-untyped-def]
    toy = Toy(OPTIMIZERS[optimizer], epochs=7)  # 21 steps
    torch.testing.assert_close(weights(toy, 4, Strategy(topology=AllReduce(algorithm))), plain(toy, batch_size=32), rtol=1e-6, atol=1e-6)


def test_clipping_the_merged_gradient_is_clipping_on_the_whole_batch() -> None:
    toy = Toy(OPTIMIZERS["momentum"], clip_norm=0.2)
    torch.testing.assert_close(weights(toy, 4, "allreduce"), plain(toy, batch_size=32), rtol=1e-5, atol=1e-6)


@each_optimizer
@pytest.mark.parametrize("shards", [1, 3])
def test_a_server_in_lockstep_is_allreduce(shards: int, optimizer: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer])
    served = weights(toy, 4, Strategy(topology=Server(shards)))
    torch.testing.assert_close(served, weights(toy, 4, "allreduce"), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_the_number_of_shards_changes_no_bit_in_lockstep(workers: int) -> None:
    toy = Toy(OPTIMIZERS["adam"])
    assert torch.equal(weights(toy, workers, Strategy(topology=Server(1))), weights(toy, workers, Strategy(topology=Server(4))))


@each_optimizer
def test_all_to_all_in_lockstep_is_allreduce(optimizer: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer])
    torch.testing.assert_close(weights(toy, 3, Strategy(topology=AllToAll())), weights(toy, 3, "allreduce"), rtol=1e-5, atol=1e-5)


@each_optimizer
@pytest.mark.parametrize("merge", [Mean(), Sum(), StalenessScaled()], ids=repr)
@pytest.mark.parametrize("topology", [Server(2), AllToAll()], ids=repr)
def test_bounded_without_slack_is_lockstep_bit_for_bit(topology: Any, merge: Any, optimizer: str) -> None:
    bounded, locked = (Strategy(consistency=rule, topology=topology, merge=merge) for rule in (Bounded(0), BulkSynchronous()))
    for runtime in (Simulator(network=Instant()), Simulator(network=SLOW, devices=UNEVEN)):
        toy = Toy(OPTIMIZERS[optimizer])
        assert torch.equal(weights(toy, 4, bounded, runtime), weights(toy, 4, locked, runtime))


@pytest.mark.parametrize("merge", [Mean(), Sum(), Elastic(), OuterOptimizer(Nesterov())], ids=repr)
def test_bounded_without_slack_is_lockstep_after_local_steps_too(merge: Any) -> None:
    bounded, locked = (
        Strategy(consistency=LocalSteps(2, rule), topology=Server(2), merge=merge) for rule in (Bounded(0), BulkSynchronous())
    )
    assert torch.equal(weights(Toy(), 4, bounded), weights(Toy(), 4, locked))


def test_one_local_step_of_plain_sgd_is_allreduce() -> None:
    local = Strategy(consistency=LocalSteps(1), topology=AllReduce())
    torch.testing.assert_close(weights(Toy(), 4, local), weights(Toy(), 4, "allreduce"), rtol=1e-5, atol=1e-6)


@each_optimizer
def test_softsync_with_everyone_and_no_slack_is_synchronous(optimizer: str) -> None:
    soft, toy = Strategy(consistency=SoftSync(1, Bounded(0)), topology=Server(1), merge=StalenessScaled()), Toy(OPTIMIZERS[optimizer])
    assert torch.equal(weights(toy, 4, soft), weights(toy, 4, Strategy(topology=Server(1))))


@pytest.mark.parametrize("codec", [TopK(1.0), ErrorFeedback(TopK(1.0)), Striped(Identity())], ids=repr)
def test_a_codec_that_sends_everything_is_identity(codec) -> None:  # type: ignore[no-untyped-def]
    torch.testing.assert_close(weights(Toy(), 3, Strategy(codec=codec)), weights(Toy(), 3, "allreduce"), rtol=1e-5, atol=1e-6)


def test_an_outer_step_of_one_without_momentum_is_averaging() -> None:
    outer = Strategy(consistency=LocalSteps(3), merge=OuterOptimizer(Nesterov(1.0, 0.0)))
    torch.testing.assert_close(weights(Toy(), 3, outer), weights(Toy(), 3, Strategy(consistency=LocalSteps(3))), rtol=1e-5, atol=1e-6)


def test_gossip_of_two_is_averaging_at_every_step() -> None:
    gossip = Strategy(consistency=LocalSteps(1), topology=Gossip())
    torch.testing.assert_close(weights(Toy(), 2, gossip), weights(Toy(), 2, Strategy(consistency=LocalSteps(1))), rtol=1e-5, atol=1e-6)


def test_synchronous_elastic_averaging_keeps_the_order_of_arrival_out_of_the_result() -> None:
    strategy, toy = Strategy(consistency=LocalSteps(2), topology=Server(2), merge=Elastic()), Toy(batch_size=4)
    plain = weights(toy, 3, strategy)
    for speeds in permutations((1.0, 0.6, 0.2)):
        devices = Fleet((Profile("measured", (0.01,)),), (Mixed(speeds),))
        assert torch.equal(weights(toy, 3, strategy, Simulator(network=SLOW, devices=devices)), plain)
    asynchronous = dataclasses.replace(strategy, consistency=LocalSteps(2, Asynchronous()))
    assert not torch.equal(weights(toy, 3, asynchronous, Simulator(network=SLOW, devices=devices)), plain), "the speeds make no difference"
