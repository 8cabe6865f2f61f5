"""Shares of each step by speed: every sample once, and the step of one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import polyrhythm as pr
from polyrhythm.core.kernel.group import Group
from polyrhythm.core.kernel.names import worker
from polyrhythm.core.kernel.port import Port
from polyrhythm.core.protocols.controller import AS_COMPOSED
from polyrhythm.core.protocols.deal_rules import apportioned
from polyrhythm.core.protocols.deals import Deals
from polyrhythm.core.training.data.source import source_of
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.partition import GivenStages, Pipelined, StagesByReplica
from polyrhythm.shuffle import ByShares

speeds = st.lists(st.floats(0.1, 50.0), min_size=1, max_size=6).map(tuple)


@given(speeds, st.integers(0, 100))
def test_numbers_are_in_proportion_and_none_is_left_out(shares: tuple[float, ...], more: int) -> None:
    samples = len(shares) + more
    found = apportioned(samples, shares)
    assert sum(found) == samples
    assert min(found) >= 1
    for size, share in zip(found, shares, strict=True):
        assert size <= max(1, samples * share / sum(shares) + 1)


@given(speeds, st.integers(1, 9), st.integers(0, 60))
def test_every_step_is_that_of_one_process(shares: tuple[float, ...], batch: int, more: int) -> None:
    workers, samples = len(shares), len(shares) * batch + more
    every: list[list[list[int]]] = []
    for rank in range(workers):
        deals, source = Deals(Group.of_workers(workers, rank, 3)), source_of(range(samples))
        feed = ByShares(shares).feed(deals, Port(worker(rank), 3, lambda: 0.0), _no_one, AS_COMPOSED)
        every.append([found.tolist() for _, found in feed.epoch(source, deals.of(0), batch)])
        assert feed.count(source, batch) == len(every[-1])
    steps = [[sample for part in parts for sample in part] for parts in zip(*every, strict=True)]
    assert all(len(step) == workers * batch for step in steps[: samples // (workers * batch)])
    seen = [sample for step in steps for sample in step]
    assert len(set(seen)) == len(seen) > samples - workers


def _no_one(coroutine: Any) -> Any:
    raise AssertionError("it says nothing to anyone")


def train(worker: pr.Worker) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6))).double()
    model, optimizer = worker.attach(model, torch.optim.Adam(model.parameters(), lr=0.01), loss=F.mse_loss)
    x = torch.randn(48, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for inputs, targets in worker.batches((x, x.sin()), batch_size=12 // worker.replicas):
        optimizer.zero_grad()
        worker.train_step(inputs, targets)
        optimizer.step()


@pytest.mark.parametrize("unequal", [False, True])
def test_replicas_of_unequal_speed_train_what_one_process_trains(unequal: bool) -> None:
    strategy = pr.Strategy(shuffle=ByShares((3, 2)))
    division = StagesByReplica((GivenStages((3, 3)), GivenStages((1, 3, 2))))
    cut = pr.Cut(pipeline=Pipelined(micro_batches=2, division=division)) if unequal else None
    mesh = pr.Mesh(dp=2, pp=(2, 3)) if unequal else pr.Mesh(dp=2)
    found = pr.run(train, mesh=mesh, cut=cut, strategy=strategy, on=pr.Simulator())
    one = pr.run(train, mesh=pr.Mesh(dp=1), on=pr.Simulator())
    assert found.summary.samples == 48
    for name, value in found.weights.items():
        torch.testing.assert_close(value, one.weights[name], rtol=1e-9, atol=1e-9)


def test_shares_that_cannot_be_are_refused() -> None:
    with pytest.raises(CompositionError, match="above 0"):
        ByShares((1.0, 0.0))
    for system in ("local-sgd", "ssp"):
        with pytest.raises(CompositionError, match="exchange gradients in each step"):
            pr.Strategy(exchange=pr.systems.find(system).exchange, shuffle=ByShares((3, 2)))
    with pytest.raises(PolyrhythmError, match="3 shares for 2 members"):
        pr.run(train, workers=2, strategy=pr.Strategy(shuffle=ByShares((3, 2, 1))), on=pr.Simulator())
    with pytest.raises(PolyrhythmError, match="a stream has no length"):
        pr.run(_streaming, workers=2, strategy=pr.Strategy(shuffle=ByShares((3, 2))), on=pr.Simulator())


def _streaming(worker: pr.Worker) -> None:
    for _ in worker.batches(iter(range(10)), batch_size=2):
        pass
