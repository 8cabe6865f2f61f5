"""Tangent kernels: rows, whole Jacobians, and the limit by sampling."""

from __future__ import annotations

import pytest
import torch

from polyrhythm.core.processes import Processes
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm_reproductions.jobs.tangent_kernel import (
    descended,
    drawn_weights,
    exponent,
    kernel_by_workers,
    limit_kernel,
    network,
    relative,
    tangent_row,
)

X = torch.nn.functional.normalize(torch.randn(6, 4, generator=torch.Generator().manual_seed(0))) * 2


@pytest.mark.parametrize("hidden", [1, 2, 3])
@pytest.mark.parametrize("workers", [1, 3])
def test_rows_of_workers_are_the_product_of_whole_jacobians(hidden: int, workers: int) -> None:
    weights = drawn_weights(4, 20, hidden, seed=1)
    jacobian = torch.func.jacrev(lambda given: network(given, X))(weights)
    flat = torch.cat([each.flatten(1) for each in jacobian], dim=1)
    kernel = kernel_by_workers(weights, X, workers)
    torch.testing.assert_close(kernel, flat @ flat.T, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(kernel, kernel.T, rtol=1e-4, atol=1e-5)
    assert torch.linalg.eigvalsh(kernel.double()).min() > -1e-5


@pytest.mark.long
def test_real_processes_fill_the_same_table() -> None:
    weights = drawn_weights(4, 20, 2, seed=1)

    def train(worker: Worker) -> None:
        table = worker.table("kernel", rows=6, columns=6)
        for row in range(worker.rank, 6, worker.workers):
            worker.count(1)
            table.inc(torch.tensor([row]), tangent_row(weights, X, row)[None])
            table.clock()

    found = run(train, workers=2, strategy="ssp", on=Processes()).weights["kernel"]
    assert torch.equal(found, kernel_by_workers(weights, X))


@pytest.mark.parametrize("hidden", [1, 2])
def test_the_recursion_is_the_mean_of_wide_networks(hidden: int) -> None:
    found = sum(kernel_by_workers(drawn_weights(4, 512, hidden, seed), X, 1).double() for seed in range(8)) / 8
    assert relative(found, limit_kernel(X, hidden)) < 0.06


def test_a_limit_of_one_input_grows_by_its_norm_with_each_layer() -> None:
    """Σ(x, x) stays |x|² / d, since weights of rectified units count twice, and Θ adds one of them for each layer."""
    for hidden in (1, 2, 5):
        torch.testing.assert_close(
            limit_kernel(X.double(), hidden).diagonal(), torch.full((6,), hidden + 1.0, dtype=torch.float64), rtol=1e-6, atol=1e-6
        )


def test_descent_lowers_the_loss_and_an_exponent_is_that_of_a_power() -> None:
    weights, y = drawn_weights(4, 64, 1, 0), torch.ones(6)
    after = descended(weights, X, y, 0.2, 30)
    assert (network(after, X) - y).square().mean() < (network(weights, X) - y).square().mean() / 4
    assert exponent((1, 2, 4), (3.0, 1.5, 0.75)) == pytest.approx(-1)
