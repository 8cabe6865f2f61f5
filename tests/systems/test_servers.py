"""Servers that add up what workers did, and servers that multiply out what they computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from toy import SLOW, Toy, weights

from polyrhythm import systems
from polyrhythm.consistency import Asynchronous
from polyrhythm.core.kernel.events import Sent
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.hardware.devices import Profile
from polyrhythm.hardware.fleet import Fleet, Mixed
from polyrhythm.merge import Sum
from polyrhythm.parameters.factor_costs import as_factors, factors_to_server
from polyrhythm.topology import Server

UNEVEN = Fleet((Profile("measured", (0.01,)),), (Mixed((1.0, 0.6, 0.2)),))
PARAMETER_SERVER = Strategy(consistency=Asynchronous(), topology=Server(), merge=Sum())
ADAM = systems.find("project-adam", batch=5)


def exact(worker: Any) -> None:
    """Least squares on small whole numbers at a rate of 1/4: no sum is rounded, so that no order of adding makes a difference."""
    model = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        model.weight.zero_()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.25))
    for step in range(5):
        x = torch.tensor([[1.0, -1.0, 1.0], [0.0, 1.0, worker.rank % 2]], dtype=torch.float64).roll(step + worker.rank, 1)
        optimizer.zero_grad()
        (model(x)[:, 0] - torch.tensor([worker.rank + 1.0, step])).square().sum().mul(0.5).backward()
        worker.count(2)
        optimizer.step()


def went(strategy: str | Strategy, train: Any = exact) -> Run:
    return run(train, workers=3, strategy=strategy, on=Simulator(network=SLOW, devices=UNEVEN), seed=1)


def test_what_sgd_did_moves_servers_as_its_gradients_move_a_parameter_server_to_the_bit() -> None:
    deltas, gradients = went("byteps-async"), went(PARAMETER_SERVER)
    assert deltas.summary.weights_sha256 == gradients.summary.weights_sha256
    assert went("allreduce").summary.weights_sha256 != gradients.summary.weights_sha256


def test_where_sums_are_rounded_it_is_a_parameter_server_to_rounding_and_momentum_is_the_workers_own() -> None:
    on = Simulator(network=SLOW, devices=UNEVEN)
    close = [weights(Toy(), 3, each, on) for each in ("byteps-async", PARAMETER_SERVER)]
    torch.testing.assert_close(*close, rtol=1e-5, atol=1e-6)
    heavy = Toy(lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9))
    assert not torch.allclose(*(weights(heavy, 3, each, on) for each in ("byteps-async", PARAMETER_SERVER)), rtol=1e-3)


def test_zhangs_server_is_one_that_adds_what_plain_sgd_did_to_the_bit() -> None:
    assert went("zhang-asgd").summary.weights_sha256 == went("byteps-async").summary.weights_sha256
    assert went("zhang-asgd", exact).summary.weights_sha256 != went("mxnet-async").summary.weights_sha256


OUTS, INS, BATCH, WORKERS = 96, 64, 5, 4


def one_layer(worker: Any, steps: int = 3) -> None:
    model = nn.Linear(INS, OUTS, bias=False)
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
    draw = torch.Generator().manual_seed(worker.rank)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(BATCH, INS, generator=draw)).square().mean().backward()
        worker.count(BATCH)
        optimizer.step()


def busiest(strategy: str | Strategy) -> float:
    """The most numbers that one machine sends and receives of one step, of which a server's runs with no worker."""
    on = Simulator(network=Instant(), record_sends=True)
    few, many = (run(lambda worker, n=n: one_layer(worker, n), workers=WORKERS, strategy=strategy, on=on) for n in (2, 6))  # type: ignore[misc]
    loads = []
    for found in (few, many):
        load: dict[str, int] = {}
        for event in found.outcome.events:
            if isinstance(event, Sent):
                for end in (event.actor, event.to):
                    load[end] = load.get(end, 0) + event.nbytes
        loads.append(load)
    return max(loads[1][name] - loads[0][name] for name in loads[1]) / 4 / 4


def test_the_hot_spot_of_project_adam_is_its_server_and_the_byte_models_are_what_is_counted() -> None:
    apart = factors_to_server(OUTS, INS, BATCH, WORKERS) * WORKERS / (WORKERS - 1)
    assert busiest(ADAM) == pytest.approx(apart, rel=0.03)  # and headers
    everyone = systems.find("poseidon", batch=BATCH)
    assert busiest(everyone) == pytest.approx(as_factors(OUTS, INS, BATCH, WORKERS), rel=0.1)
    assert busiest(everyone) < busiest(ADAM) / 3


def test_project_adam_is_a_parameter_server_whose_gradients_were_multiplied_out() -> None:
    on = Simulator(network=Instant(), devices=UNEVEN)
    pair = [
        weights(Toy(), 3, each, on)
        for each in (systems.find("project-adam", batch=1), Strategy(consistency=Asynchronous(), topology=Server()))
    ]
    torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-5)
