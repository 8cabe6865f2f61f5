"""Laws of sites with pipelines inside: each stage has an outer step of its own, and nobody gathers the model."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import polyrhythm as pr
from polyrhythm.core.kernel.events import Sent, Waited
from polyrhythm.partition.pipeline import Pipelined
from polyrhythm.partition.zero import Zero

WIDTH, PERIOD, STEPS, STAGES = 32, 5, 20, 2
SITES = pr.hardware.Network.uniform("line", "2 Mbit/s", "20 ms")
MACHINE = pr.Device("core", 1e7, 0.0)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(STAGES)))


def train(worker: pr.Worker) -> None:
    model: nn.Module = net()
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    model, optimizer = worker.attach(model, optimizer, loss=F.mse_loss)
    for step in worker.range(STEPS):
        x = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(100 * step + worker.replica))
        worker.count(32 if worker.counts_samples else 0)
        optimizer.zero_grad()
        loss = worker.train_step(x, x.sin())
        optimizer.step()
        worker.report(loss=loss)


def run_of(strategy: Any, on: Any = None, **sizes: int) -> pr.Run:
    cut = pr.Cut(pipeline=Pipelined(micro_batches=4))
    return pr.run(train, mesh=pr.Mesh(**sizes), cut=cut, strategy=strategy, on=on or pr.Simulator(), timeline=True)


def between_sites(run: pr.Run, size: int) -> Counter[tuple[int, int]]:
    """The bytes of exchanges from each worker to each of another site; not those of the beginning and of the result."""
    found = Counter[tuple[int, int]]()
    for event in run.outcome.events:
        if isinstance(event, Sent) and event.topic.split("/")[-1] not in ("init", "result") and "worker" in event.to:
            sender, receiver = (int(name.split("/")[1]) for name in (event.actor, event.to))
            if sender // size != receiver // size:
                found[sender, receiver] += event.nbytes
    return found


def test_each_stage_sends_factors_of_few_bits_to_its_own_kind_and_to_nobody_else() -> None:
    """A packet has two numbers a byte, and a scale for each tensor: P and the bias, then Q, in each round."""
    rank, rounds = 2, STEPS // PERIOD
    run = run_of({"site": pr.systems.find("diloco-x", period=PERIOD, rank=rank)}, site=2, pp=STAGES)
    sent = between_sites(run, STAGES)
    payload = (rank * WIDTH + WIDTH) // 2 + 4 * 2 + rank * WIDTH // 2 + 4
    assert set(sent) == {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert all(rounds * payload <= nbytes <= rounds * (payload + 400) for nbytes in sent.values()), (sent, payload)
    exact = between_sites(run_of({"site": pr.systems.find("diloco", period=PERIOD)}, site=2, pp=STAGES), STAGES)
    assert max(sent.values()) < 0.3 * min(exact.values())


def test_shards_of_replicas_inside_of_a_site_have_outer_steps_of_their_own() -> None:
    run = run_of({"site": pr.systems.find("diloco-x", period=PERIOD), "dp": Zero(1)}, site=2, dp=2, pp=STAGES)
    sent = between_sites(run, 2 * STAGES)
    assert set(sent) == {pair for k in range(4) for pair in ((k, k + 4), (k + 4, k))}


def test_local_steps_go_on_while_outer_gradients_are_under_way() -> None:
    def waits(name: str) -> float:
        on = pr.Simulator(network=SITES, devices=MACHINE)
        run = run_of({"site": pr.systems.find(name, period=PERIOD)}, on, site=2, pp=1)
        return sum(event.seconds for event in run.outcome.events if isinstance(event, Waited))

    assert waits("diloco-x") < 0.5 * waits("diloco")


def test_it_learns_as_without_delay_and_bits() -> None:
    losses = {
        name: run_of({"site": pr.systems.find(name, period=PERIOD)}, site=2, pp=STAGES).summary.final["loss"]
        for name in ("diloco", "diloco-x")
    }
    assert losses["diloco-x"] == pytest.approx(losses["diloco"], rel=0.25)


def test_both_runtimes_give_the_same_bits() -> None:
    strategy = {"site": pr.systems.find("diloco-x", period=PERIOD)}
    runs = [run_of(strategy, on, site=2, pp=STAGES) for on in (pr.Simulator(), pr.Processes())]
    assert runs[0].summary.weights_sha256 == runs[1].summary.weights_sha256
