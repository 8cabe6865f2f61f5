"""Systems that exchange some layers in one way and some in another."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import polyrhythm as pr
from polyrhythm import systems
from polyrhythm.codec import SufficientFactors
from polyrhythm.core.processes import Processes
from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.strategy import Exchange, Strategy
from polyrhythm.core.training.result import Run
from polyrhythm.core.training.run import run
from polyrhythm.errors import CompositionError
from polyrhythm.parameters import Optionally, Where
from polyrhythm.topology import Server

LAYERS = ((96, 64), (96, 96), (8, 96))
"""Outputs and inputs; without biases."""
SYMBOLS, WIDTH = 2000, 8
VIRTUAL, REAL = Simulator(network=Instant()), Processes(cuda=False)
FEW, MANY = 2, 4
GPT = {"samples": 64, "batch_size": 2, "context": 8, "layers": 1, "width": 16, "heads": 2}


def trains(batch: int, steps: int) -> Any:
    def train(worker: Any) -> None:
        model = nn.Sequential(*(nn.Linear(ins, outs, bias=False) for outs, ins in LAYERS))
        model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=0.01))
        draw = torch.Generator().manual_seed(worker.rank)
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(batch, LAYERS[0][1], generator=draw)).square().mean().backward()
            worker.count(batch)
            optimizer.step()

    return train


def went(strategy: str | Strategy, batch: int, workers: int, steps: int = MANY, on: Any = VIRTUAL) -> Run:
    return run(trains(batch, steps), workers=workers, strategy=strategy, on=on, seed=1)


@cache
def bytes_per_step(strategy: Strategy, batch: int, workers: int) -> float:
    few, many = (went(strategy, batch, workers, steps).summary.bytes_sent for steps in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def numbers(layers: Iterable[tuple[int, int]]) -> int:
    return sum(outs * ins for outs, ins in layers)


def poseidon(batch: int, workers: int) -> Strategy:
    """With as many servers as workers, one with each."""
    return systems.find("poseidon", batch=batch, servers=workers)


def paid(batch: int, workers: int) -> list[tuple[int, int]]:
    """The layers that go as factors, by the rule for as many servers as workers."""
    return [(outs, ins) for outs, ins in LAYERS if batch * (outs + ins) * workers <= 2 * outs * ins]


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("batch", [2, 12, 40])
def test_poseidon_sends_factors_to_all_and_the_rest_to_servers_and_back(batch: int, workers: int) -> None:
    factors = 4 * workers * (workers - 1) * batch * sum(map(sum, paid(batch, workers)))
    rest = 2 * 4 * workers * numbers(set(LAYERS) - set(paid(batch, workers)))
    assert bytes_per_step(poseidon(batch, workers), batch, workers) == pytest.approx(factors + rest, rel=0.05)  # and headers


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("batch", [2, 8, 16, 64])
def test_poseidon_sends_no_more_than_servers_alone_or_factors_alone(batch: int, workers: int) -> None:
    """Between machines: what a worker and the shard on its host send each other stays on one, which the rule knows."""
    ways = (
        (poseidon(batch, workers), set(LAYERS) - set(paid(batch, workers))),
        (Strategy(topology=Server(workers)), LAYERS),
        (Strategy(codec=SufficientFactors()), ()),
    )
    between = [bytes_per_step(way, batch, workers) - 2 * 4 * numbers(served) for way, served in ways]
    assert between[0] <= 1.02 * min(between[1:]), "but for headers"


def flat(result: Run) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in result.weights.values()])


@pytest.mark.parametrize("workers", [1, 2, 4, 16])
@pytest.mark.parametrize("batch", [1, 12, 500])
def test_poseidon_is_allreduce_to_rounding(batch: int, workers: int) -> None:
    pair = [flat(went(each, 6, workers)) for each in (poseidon(batch, min(workers, 4)), "allreduce")]
    torch.testing.assert_close(*pair, rtol=1e-6, atol=1e-6)


ON_A_GPT = (systems.find("poseidon", batch=2, servers=2), systems.find("parallax", servers=2))
each_on_a_gpt = pytest.mark.parametrize("strategy", ON_A_GPT, ids=lambda strategy: strategy.name)


@each_on_a_gpt
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_on_a_gpt_both_runtimes_give_the_same_bits_and_bytes(strategy: Strategy, workers: int) -> None:
    train = pr.load_workload("chars-gpt", GPT)
    virtual, real = (pr.run(train, workers=workers, strategy=strategy, on=on, seed=1).summary for on in (VIRTUAL, REAL))
    assert virtual.weights_sha256 == real.weights_sha256
    assert (virtual.bytes_sent, virtual.messages_sent) == (real.bytes_sent, real.messages_sent)


@each_on_a_gpt
def test_on_a_gpt_sixteen_virtual_workers_learn_what_allreduce_learns(strategy: Strategy) -> None:
    train = pr.load_workload("chars-gpt", GPT)
    one, other = (pr.run(train, workers=16, strategy=each, on=VIRTUAL, seed=1) for each in (strategy, "allreduce"))
    torch.testing.assert_close(flat(one), flat(other), rtol=1e-4, atol=1e-5)


class Bag(nn.Module):
    """Many symbols, of which a batch has few, and a layer."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.symbols, self.score = nn.EmbeddingBag(SYMBOLS, WIDTH, sparse=sparse), nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.score(self.symbols(x))


def bags(sparse: bool = True, steps: int = MANY) -> Any:
    """Every worker has twenty rows of its own at each step, as far as there are enough."""

    def train(worker: Any) -> None:
        model = Bag(sparse)
        model, optimizer = worker.attach(model, torch.optim.Adagrad(model.parameters(), lr=0.1))
        for step in range(steps):
            x = (torch.arange(20).view(4, 5) + 20 * (worker.rank + step * worker.workers)) % SYMBOLS
            optimizer.zero_grad()
            F.cross_entropy(model(x), x[:, 0] % 3).backward()
            worker.count(4)
            optimizer.step()

    return train


@pytest.mark.parametrize("workers", [1, 2, 4, 16])
def test_parallax_sends_the_rows_with_a_gradient_and_gets_the_rows_of_all(workers: int) -> None:
    few, many = (run(bags(steps=steps), workers=workers, strategy="parallax", on=VIRTUAL, seed=1) for steps in (FEW, MANY))
    per_step = (many.summary.bytes_sent - few.summary.bytes_sent) / (MANY - FEW)
    rows = 20 * (4 + 4 * WIDTH)  # an index and its values
    rest = 2 * (workers - 1) * 4 * (3 * WIDTH + 3)
    headers = 250 * 2 * workers + 60 * 2 * workers * (workers - 1)
    assert workers * rows + workers**2 * rows + rest < per_step < workers * rows + workers**2 * rows + rest + headers


@pytest.mark.parametrize("workers", [1, 2, 4, 16])
def test_parallax_is_allreduce_to_rounding(workers: int) -> None:
    sparse = run(bags(), workers=workers, strategy="parallax", on=VIRTUAL, seed=1)
    dense = run(bags(sparse=False), workers=workers, strategy="allreduce", on=VIRTUAL, seed=1)
    torch.testing.assert_close(flat(sparse), flat(dense), rtol=1e-5, atol=1e-6)


@each_on_a_gpt
def test_timing_needs_training_where_data_decide_the_size(strategy: Strategy) -> None:
    with pytest.raises(CompositionError, match=r"A timing-only run computes no gradients, and \w+\(\) sends \w+ of gradients"):
        pr.simulate_timing(pr.load_workload("chars-gpt", GPT), workers=2, strategy=strategy, steps=2, on=VIRTUAL)


def test_an_exchange_may_be_left_without_parameters_by_a_user_too() -> None:
    nothing = Strategy(selected=[(Optionally(Where(lambda candidate: False)), Exchange(topology=Server(2)))])
    assert went(nothing, 2, 2).summary.weights_sha256 == went("allreduce", 2, 2).summary.weights_sha256


@each_on_a_gpt
@pytest.mark.parametrize("on", [VIRTUAL, REAL], ids=lambda on: on.kind)
def test_a_resumed_run_ends_with_the_bits_of_one_that_was_not_broken_off(strategy: Strategy, on: Any, tmp_path: Path) -> None:
    train = pr.load_workload("chars-gpt", GPT)
    whole = pr.run(train, workers=2, strategy=strategy, on=on, seed=1, checkpoints=pr.Checkpoints(tmp_path, every=5)).summary
    again = pr.run(
        train, workers=2, strategy=strategy, on=on, seed=1, checkpoints=pr.Checkpoints(resume=tmp_path / "step-00000010")
    ).summary
    assert again.weights_sha256 == whole.weights_sha256
