"""Averages of a part of the weights, with the rest left at home."""

from __future__ import annotations

from typing import Any

import torch
from endpoints import context_of
from torch.nn import functional as F
from toy import data, network

from polyrhythm.codec import SharedK
from polyrhythm.consistency import LocalSteps
from polyrhythm.core.protocols.merge import Contribution
from polyrhythm.core.protocols.responses import ReplaceSent
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import run
from polyrhythm.core.weights.state import ModelState
from polyrhythm.merge import Mean
from polyrhythm.topology import AverageWeights


def test_what_was_sent_becomes_the_mean_and_the_rest_keeps_every_bit() -> None:
    weights = [torch.randn(50, generator=torch.Generator().manual_seed(rank)) * 1e3 for rank in range(3)]
    places = torch.arange(50) % 4 == 0
    total = torch.stack(weights).sum(dim=0) * places
    for mine in weights:
        held = ModelState(mine.clone(), Layout(("w",), ((50,),)), Mean(), context_of(3), None)
        ReplaceSent(mine * places, Contribution(total, 3)).apply(held)
        assert torch.equal(held.weights[places], total[places] / 3)
        assert torch.equal(held.weights[~places], mine[~places])


def test_replicas_differ_until_the_run_ends_with_their_mean() -> None:
    own: dict[int, torch.Tensor] = {}
    ended: dict[int, torch.Tensor] = {}

    def flat(model: torch.nn.Module) -> torch.Tensor:
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    def train(worker: Any) -> None:
        model = network()
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        for x, y in worker.batches(data(), batch_size=8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        own[worker.rank] = flat(model)
        worker.finish()
        ended[worker.rank] = flat(model)

    strategy = Strategy(consistency=LocalSteps(1), topology=AverageWeights(), codec=SharedK(0.25))
    run(train, workers=3, strategy=strategy, on=Simulator(network=Instant()), seed=5)
    same = (own[0] == own[1]) & (own[1] == own[2])
    assert 0.2 < same.float().mean() < 0.3
    torch.testing.assert_close(ended[0], torch.stack(list(own.values())).mean(dim=0))
    assert torch.equal(ended[0], ended[1])
    assert torch.equal(ended[0], ended[2])
