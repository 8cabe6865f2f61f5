"""The closed forms against what virtual time takes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from collectives import BANDWIDTH, LATENCY, run_collective
from torch import nn

from polyrhythm.consistency import LocalSteps
from polyrhythm.core.protocols.algorithm import Algorithm
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.network import Network
from polyrhythm.topology import AllReduce, AllToAll, Direct, Gossip, Ring, Server, Star, Tree, costs

M = 4 * 250_000
SIZES = [1, 2, 4, 8, 16, 32]


def seconds(algorithm: Algorithm, workers: int) -> float:
    given = torch.zeros(M // 4)
    return run_collective(workers, lambda context, group: algorithm.reduce(context.port, group, given, "t"))[1].seconds


@pytest.mark.parametrize("workers", SIZES)
def test_sums_take_what_the_formulas_state(workers: int) -> None:
    assert seconds(Ring(), workers) == pytest.approx(costs.ring(M, workers, LATENCY, BANDWIDTH), rel=0.01)
    assert seconds(Tree(), workers) == pytest.approx(costs.binary_tree(M, workers, LATENCY, BANDWIDTH), rel=0.01)
    if workers > 1:
        assert seconds(Direct(), workers) == pytest.approx(costs.colocated_servers(M, workers, BANDWIDTH) + 2 * LATENCY, rel=0.01)
        assert seconds(Star(), workers) == pytest.approx(2 * costs.central_server(M, workers - 1, BANDWIDTH) + 2 * LATENCY, rel=0.01)


def a_step(topology: Any, workers: int, local: bool = False) -> float:
    """The seconds of a step of a model of which only the size matters, where computing takes none."""

    def train(worker: Any, steps: int) -> None:
        model = nn.Linear(1, M // 4, bias=False)
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
        for _ in range(steps):
            worker.count(1)
            optimizer.zero_grad()
            model(torch.zeros(1, 1)).sum().backward()
            optimizer.step()

    strategy = Strategy(topology=topology, **({"consistency": LocalSteps(1)} if local else {}))
    spent = []
    for steps in (2, 4):
        on = Simulator(network=Network.uniform("free of latency", BANDWIDTH, 0.0), devices=Profile("measured", (1e-9,)))
        spent.append(run(partial(train, steps=steps), workers=workers, strategy=strategy, on=on).outcome.time)
    return (spent[1] - spent[0]) / 2


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_steps_take_what_the_formulas_state(workers: int) -> None:
    """Where messages have no latency."""
    assert a_step(Server(1), workers) == pytest.approx(2 * costs.central_server(M, workers, BANDWIDTH), rel=0.02)
    apart = 2 * costs.sharded_servers(M, workers, 2, BANDWIDTH)
    assert a_step(Server(2), workers) == pytest.approx(apart, rel=0.02)
    assert a_step(AllReduce(Direct()), workers) == pytest.approx(costs.colocated_servers(M, workers, BANDWIDTH), rel=0.02)
    assert a_step(AllToAll(), workers, local=True) == pytest.approx(costs.all_to_all(M, workers, BANDWIDTH), rel=0.02)
    assert a_step(Gossip(), workers, local=True) == pytest.approx(costs.gossip(M, 0.0, BANDWIDTH), rel=0.02)


def test_a_central_server_is_linear_in_the_workers_and_a_tree_logarithmic() -> None:
    sizes = np.array([1, 2, 4, 8, 16, 32, 64, 128])
    server = [costs.central_server(M, int(P), BANDWIDTH) for P in sizes]
    tree = [costs.reduction_tree(M, int(P), 0.0, BANDWIDTH) for P in sizes]
    assert np.corrcoef(sizes, server)[0, 1] ** 2 > 0.99
    assert np.corrcoef(np.log2(sizes), tree)[0, 1] ** 2 > 0.99
    assert server[5] / tree[5] == pytest.approx(6.4)


def test_parts_are_counted_as_their_paper_does() -> None:
    assert costs.partial_all_to_all(M, 5, 4, BANDWIDTH) == pytest.approx(M / BANDWIDTH)
