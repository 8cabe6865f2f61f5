"""Tensor fusion: the sums of single tensors, sooner, in an order on which all agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from test_keyed import LAYOUT, WORKERS, rounds
from torch import nn
from toy import SLOW, Toy, trained, weights

from polyrhythm.codec import Cast, ErrorFeedback, TopK
from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.topology import (
    AllReduce,
    BitVector,
    CompressedRing,
    Direct,
    EightBits,
    Fused,
    Keyed,
    Neighbours,
    ResponseCache,
    RootCoordinator,
    Server,
    Truncated,
)

READINESS = (RootCoordinator(), ResponseCache(), BitVector())
SGD = Toy(lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9), epochs=1)


@pytest.mark.parametrize("readiness", READINESS, ids=repr)
@pytest.mark.parametrize("groups", [None, Neighbours(3)], ids=repr)
def test_tensors_that_come_in_any_order_are_summed(readiness: Any, groups: Any) -> None:
    settings = {} if groups is None else {"groups": groups}
    for totals in rounds(Fused(AllReduce(Direct()), readiness=readiness, cycle_seconds=1e-5, **settings), 100):
        for turn, total in enumerate(totals):
            assert torch.equal(total, WORKERS * (torch.arange(float(LAYOUT.numel)) + turn) + 3)


@pytest.mark.parametrize("codec", [None, Cast(torch.bfloat16), ErrorFeedback(TopK(0.2))], ids=repr)
@pytest.mark.parametrize("workers", [1, 3, 4])
def test_fusion_changes_no_bit(codec: Any, workers: int) -> None:
    """Nor does anything that decides what is fused: sizes, cycles, groups, who negotiates."""
    pieces = {} if codec is None else {"codec": codec}
    plain = weights(SGD, workers, Strategy(topology=Keyed(), **pieces))
    for nbytes, readiness, groups in (
        (0, BitVector(), Neighbours(1)),
        (64, ResponseCache(), Neighbours(1)),
        (999, BitVector(), Neighbours(2)),
    ):
        fused = Strategy(topology=Fused(AllReduce(), nbytes, 0.01, readiness, groups), **pieces)
        assert torch.equal(weights(SGD, workers, fused, Simulator(network=SLOW, devices=Profile("measured", (0.05,)))), plain)


class Many(nn.Module):
    """`sizes` vectors, which all are used."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.zeros(size) for size in sizes)

    def forward(self) -> torch.Tensor:
        return torch.stack([part.sum() for part in self.parts]).sum()


def step_seconds(sizes: Sequence[int], nbytes: int) -> float:
    """Of a step at 3 workers whose messages take a millisecond, and whose computing takes five."""

    def train(worker: Any) -> None:
        model = Many(sizes)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
        worker.report(began=0.0)
        for _ in range(2):
            worker.count(1)
            optimizer.zero_grad()
            model().backward()
            optimizer.step()

    on = Simulator(network=Network.uniform("millisecond", "1 Gbit/s", "1 ms"), devices=Profile("measured", (0.005,)))
    outcome = run(train, workers=3, strategy=Strategy(topology=Fused(nbytes=nbytes)), on=on).outcome
    return (outcome.summary.virtual_seconds - max(event.time for event in outcome.events if isinstance(event, Reported))) / 2


def test_fusion_saves_the_latencies_of_small_tensors_and_nothing_where_one_dominates() -> None:
    draw = np.random.default_rng(0)
    small = [int(size) // 4 for size in draw.integers(1024, 16 * 1024, 200)]
    assert step_seconds(small, 0) >= 1.5 * step_seconds(small, 64 * 2**20)
    large = [4_000_000, 16]
    assert 1 / 1.05 <= step_seconds(large, 0) / step_seconds(large, 64 * 2**20) <= 1.05


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Any) -> None:
    on = Simulator(network=Instant())
    whole = run(SGD, workers=2, strategy="horovod", on=on, seed=5, checkpoints=Checkpoints(tmp_path, every=2)).summary
    again = run(SGD, workers=2, strategy="horovod", on=on, seed=5, checkpoints=Checkpoints(resume=tmp_path / "step-00000004")).summary
    assert again.weights_sha256 == whole.weights_sha256


def test_simultaneous_events_in_any_order_change_no_bit() -> None:
    plain = trained(SGD, 3, "horovod").summary
    for ties in range(3):
        assert trained(SGD, 3, "horovod", Simulator(network=Instant(), shuffle_ties=ties)).summary.weights_sha256 == plain.weights_sha256


@pytest.mark.parametrize("make", [lambda: Fused(Server()), lambda: Fused(nbytes=-1), lambda: Fused(cycle_seconds=0)])  # type: ignore[arg-type]
def test_settings_without_meaning_are_refused(make: Any) -> None:
    with pytest.raises(CompositionError, match="give"):
        make()


def test_sums_that_depend_on_what_is_summed_with_them_are_refused() -> None:
    Fused(AllReduce(CompressedRing(Truncated())))
    with pytest.raises(CompositionError, match="rounds a number by what is summed with it"):
        Fused(AllReduce(CompressedRing(EightBits())))
