"""Systems that compress become others at the end of their settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_collapse import OPTIMIZERS, plain
from toy import SLOW, Toy, trained, weights

from polyrhythm import systems
from polyrhythm.codec import ErrorFeedback, Identity, Significant, Threshold, TwoBit
from polyrhythm.consistency import BulkSynchronous, LocalSteps
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.merge import Adagrad, Mean, OuterOptimizer, Sum
from polyrhythm.topology import AllReduce, AllToAll, ByKey, Delayed, Mirrors, Ring, Server


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("system", ["mxnet", "mxnet-async", "actors", "actors-softsync"])
def test_one_worker_is_the_plain_loop_bit_for_bit(system: str, optimizer: str) -> None:
    toy = Toy(OPTIMIZERS[optimizer])
    assert torch.equal(weights(toy, 1, system), plain(toy))


@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("largest", [1, 30, 10**6])
def test_how_keys_are_split_changes_no_bit_in_lockstep(servers: int, largest: int) -> None:
    toy = Toy(OPTIMIZERS["adam"])
    assert torch.equal(
        weights(toy, 3, systems.find("mxnet", servers=servers, largest=largest)), weights(toy, 3, Strategy(topology=Server()))
    )


def test_each_element_has_its_own_two_bits_however_keys_are_split() -> None:
    split, whole = (systems.find("mxnet", servers=n, threshold=0.01) for n in (3, 1))
    assert torch.equal(weights(Toy(), 3, split), weights(Toy(), 3, whole))
    assert not torch.equal(weights(Toy(), 3, whole), weights(Toy(), 3, "mxnet"))


def test_gaps_change_no_bit_of_strom_and_save_bytes() -> None:
    words, gaps = (trained(Toy(), 3, systems.find("strom", gaps=gaps)).summary for gaps in (False, True))
    assert gaps.weights_sha256 == words.weights_sha256
    assert gaps.messages_sent == words.messages_sent


def test_a_threshold_that_never_adapts_and_never_clips_is_strom() -> None:
    fixed = systems.find("dl4j-sharing", threshold=4e-3, min_ratio=0.0, max_ratio=1.0, quanta=1e9)
    assert torch.equal(weights(Toy(), 3, fixed), weights(Toy(), 3, "strom"))


def test_actors_that_send_everything_in_lockstep_are_all_to_all() -> None:
    everything: dict[str, Any] = {"consistency": LocalSteps(1, BulkSynchronous()), "codec": Significant(0), "merge": Sum()}
    apart, together = Strategy(topology=Mirrors(), **everything), Strategy(topology=AllToAll(), **everything)
    toy = Toy(lambda p: torch.optim.SGD(p, lr=0.02))
    torch.testing.assert_close(weights(toy, 3, apart), weights(toy, 3, together), rtol=1e-4, atol=1e-5)


def test_a_delay_of_no_step_is_onebit_and_one_of_a_step_is_not() -> None:
    onebit = systems.find("onebit", warmup=2)
    none = Strategy(topology=Delayed(AllReduce(Ring()), steps=0), codec=onebit.codec)
    assert torch.equal(weights(Toy(), 3, none), weights(Toy(), 3, onebit))
    assert not torch.equal(weights(Toy(), 3, systems.find("onebit", warmup=2, double_buffering=True)), weights(Toy(), 3, onebit))


def test_double_buffering_hides_the_exchange() -> None:
    """With one step of delay computing and exchanging overlap: a step takes the longer of the two."""
    seconds = [trained(Toy(), 4, systems.find("onebit", double_buffering=each), Simulator(network=SLOW)).summary for each in (False, True)]
    assert seconds[1].virtual_seconds < seconds[0].virtual_seconds  # type: ignore[operator]


def test_adagrad_behind_the_quantizer_is_that_of_torch_without_one() -> None:
    toy = Toy(lambda p: torch.optim.SGD(p, lr=0.05))
    behind = Strategy(merge=OuterOptimizer(Adagrad()), codec=Identity())
    torch.testing.assert_close(weights(toy, 3, behind), weights(Toy(OPTIMIZERS["adagrad"]), 3, "allreduce"), rtol=1e-4, atol=1e-6)
    assert systems.find("onebit", adagrad=True).merge == OuterOptimizer(Adagrad(), Mean())


def test_options_reach_their_pieces() -> None:
    assert systems.find("mxnet", threshold=0.5).codec == ErrorFeedback(TwoBit(0.5))
    assert systems.find("mxnet-async", servers=3).topology == Server(3, division=ByKey())
    assert systems.find("strom", threshold=0.1).codec == ErrorFeedback(Threshold(0.1))


@pytest.mark.parametrize("threshold", [None, 0.01])
@pytest.mark.parametrize("servers", [1, 3])
def test_whether_servers_or_workers_update_changes_no_bit(servers: int, threshold: float | None) -> None:
    for optimizer in ("momentum", "adam"):
        toy, options = Toy(OPTIMIZERS[optimizer]), {"servers": servers, "threshold": threshold, "largest": 30}
        here, there = (systems.find(system, **options) for system in ("mxnet-worker-update", "mxnet"))
        assert torch.equal(weights(toy, 3, here), weights(toy, 3, there))
