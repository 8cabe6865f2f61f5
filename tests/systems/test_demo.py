"""`demo` takes the steps of the authors' code, rewritten here in plain torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import polyrhythm as pr

WORKERS, KEPT, CHUNK, DECAY, RATE, STEPS = 3, 2, 4, 0.9, 0.02, 6


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(5, 8, generator=draw), torch.randint(0, 3, (5,), generator=draw)


def scheduled(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.3**step)


def train(worker: pr.Worker) -> None:
    model = network()
    model, optimizer = worker.attach(model, torch.optim.SGD(model.parameters(), lr=RATE))
    schedule = scheduled(optimizer)
    for step in range(STEPS):
        optimizer.zero_grad()
        inputs, classes = batch(step, worker.rank)
        worker.count(len(inputs))
        F.cross_entropy(model(inputs), classes).backward()
        optimizer.step()
        schedule.step()


def cosines(size: int) -> Tensor:
    """cos(π (n + ½) k / N), orthonormal, a row for each frequency k."""
    rows = [[math.cos(math.pi * (n + 0.5) * k / size) * math.sqrt((1 if k == 0 else 2) / size) for n in range(size)] for k in range(size)]
    return torch.tensor(rows)


def side(length: int) -> int:
    return max(divisor for divisor in range(1, CHUNK + 1) if length % divisor == 0)


def largest(delta: Tensor) -> tuple[Tensor, Tensor]:
    """The coefficients of each block that are kept, and which these are: (blocks down, blocks across, height, width)."""
    matrix = delta if delta.dim() == 2 else delta[None]
    height, width = side(matrix.shape[0]), side(matrix.shape[1])
    blocks = matrix.unfold(0, height, height).unfold(1, width, width)
    found = torch.einsum("kh,yxhw,lw->yxkl", cosines(height), blocks, cosines(width))
    order = found.flatten(2).abs().argsort(dim=2, descending=True)[..., : min(KEPT, height * width)]
    chosen = torch.zeros_like(found.flatten(2)).scatter(2, order, 1.0).view_as(found)
    return found * chosen, chosen


def restored(coefficients: Tensor, shape: torch.Size) -> Tensor:
    height, width = coefficients.shape[2:]
    blocks = torch.einsum("kh,yxkl,lw->yhxw", cosines(height), coefficients, cosines(width))
    return blocks.reshape(shape)


def authors(workers: int) -> list[Tensor]:
    """The weights after each step's δ ← β δ + η g, mean over senders and sign."""
    model = network()
    parameters = list(model.parameters())
    schedule = scheduled(optimizer := torch.optim.SGD(parameters, lr=RATE))
    deltas = [[torch.zeros_like(each) for each in parameters] for _ in range(workers)]
    for step in range(STEPS):
        rate = schedule.get_last_lr()[0]
        for rank in range(workers):
            inputs, classes = batch(step, rank)
            gradients = torch.autograd.grad(F.cross_entropy(model(inputs), classes), parameters)
            deltas[rank] = [DECAY * delta + rate * gradient for delta, gradient in zip(deltas[rank], gradients, strict=True)]
        with torch.no_grad():
            for place, parameter in enumerate(parameters):
                sent = [largest(deltas[rank][place]) for rank in range(workers)]
                for rank, (kept, _) in enumerate(sent):
                    deltas[rank][place] -= restored(kept, parameter.shape)
                total, senders = (torch.stack(each).sum(dim=0) for each in zip(*sent, strict=True))
                parameter -= rate * restored(total / senders.clamp(min=1), parameter.shape).sign()
        optimizer.step()  # on no gradients: the schedule counts it
        schedule.step()
    return [parameter.detach() for parameter in parameters]


@pytest.mark.parametrize("workers", [1, WORKERS])
def test_it_takes_the_steps_of_the_authors_code_under_a_schedule(workers: int) -> None:
    strategy = pr.systems.find("demo", kept=KEPT, chunk=CHUNK, decay=DECAY)
    run = pr.run(train, workers=workers, strategy=strategy, on=pr.Simulator(network=pr.Instant()))
    for ours, theirs in zip(run.weights.values(), authors(workers), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_the_mean_over_senders_and_the_rate_in_the_momentum_each_matter() -> None:
    codec, on = pr.codec.CosineTopK(KEPT, CHUNK), pr.Simulator(network=pr.Instant())
    ours = pr.systems.find("demo", kept=KEPT, chunk=CHUNK, decay=DECAY)
    without = [
        pr.codec.RateScaled(pr.codec.DecayingFeedback(codec, DECAY)),
        pr.codec.DecayingFeedback(pr.codec.SenderMean(codec), DECAY),
    ]
    whole = pr.run(train, workers=WORKERS, strategy=ours, on=on).outcome.summary.weights_sha256
    for other in without:
        strategy = pr.Strategy(topology=ours.topology, merge=ours.merge, codec=other)
        assert pr.run(train, workers=WORKERS, strategy=strategy, on=on).outcome.summary.weights_sha256 != whole


def test_what_one_worker_alone_has_sent_counts_in_full() -> None:
    from polyrhythm.core.tensors import Layout

    layout, codec = Layout(("a",), ((4,),)), pr.codec.CosineTopK(1, chunk=4)
    flat, wave = torch.full((4,), 1.0), 2 * cosines(4)[1]
    packets = [codec.encode(each, layout, {}, None).packet for each in (flat, 3 * flat, wave)]  # type: ignore[arg-type]
    torch.testing.assert_close(codec.decode_mean(packets, layout), 2 * flat + wave)
