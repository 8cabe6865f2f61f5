"""The largest batch that loses nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy import data, network

from polyrhythm.errors import WorkloadError
from polyrhythm.tools.measuring.batch_size import largest_batch

from .scenes import go


def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def sgd(rate: float) -> Any:
    return lambda parameters: torch.optim.SGD(parameters, lr=rate)


def test_with_a_small_rate_batches_may_be_large_and_with_a_large_one_not() -> None:
    torch.manual_seed(0)
    model, sizes = network(), (4, 8, 16, 32, 96)
    assert largest_batch(model, sgd(1e-3), loss, data(), sizes, tolerance=0.01) == 96
    assert largest_batch(model, sgd(0.5), loss, data(), sizes) < 96
    assert largest_batch(model, sgd(0.5), loss, data(), sizes, tolerance=1e9) == 96


def test_neither_the_model_nor_a_random_stream_is_changed() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(network(), nn.Dropout(0.1))
    before, state = [p.detach().clone() for p in model.parameters()], torch.get_rng_state()
    first = largest_batch(model, sgd(0.1), loss, data(), (8, 16))
    assert largest_batch(model, sgd(0.1), loss, data(), (8, 16)) == first
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(state, torch.get_rng_state())


def test_all_workers_find_the_same_amid_a_run() -> None:
    found: list[int] = []

    def train(worker: Any) -> None:
        model, optimizer = worker.attach(made := network(), torch.optim.SGD(made.parameters(), lr=0.05))
        for _ in range(2):
            size = largest_batch(model, sgd(0.05), loss, [each[:32] for each in data()], (4, 8, 16))
            found.append(size)
            for x, y in worker.batches(data(), batch_size=size):
                optimizer.zero_grad()
                loss(model, x, y).backward()
                optimizer.step()

    for system in ("onebit", "byteps"):
        found.clear()
        go(train, system, 2)
        assert len(found) == 4
        assert found[0] == found[1]


@pytest.mark.parametrize(
    ("samples", "sizes", "rate", "message"),
    [
        ((), (4,), 0.1, "tensors of one length"),
        ((torch.zeros(3), torch.zeros(4)), (2,), 0.1, "tensors of one length"),
        (data(), (), 0.1, "give sizes from 1 to 96"),
        (data(), (0, 4), 0.1, "give sizes from 1 to 96"),
        (data(), (4, 97), 0.1, "give sizes from 1 to 96"),
        (data(), (4,), float("inf"), "lower the learning rate"),
    ],
)
def test_what_cannot_be_tried_is_refused(samples: Any, sizes: Any, rate: float, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        largest_batch(network(), sgd(rate), loss, samples, sizes)
