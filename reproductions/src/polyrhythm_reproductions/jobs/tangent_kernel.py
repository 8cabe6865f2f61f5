"""The tangent kernel of a ReLU network: rows of it by workers, into a table, and its limit of infinite width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp

from polyrhythm.core.simulator import Instant, Simulator
from polyrhythm.core.training.run import run
from polyrhythm.core.training.worker import Worker
from polyrhythm.tools.measuring.line_fit import fitted

Weights = tuple[Tensor, ...]


def drawn_weights(inputs: int, width: int, hidden: int, seed: int) -> Weights:
    """Weights of `hidden` layers and an output, all from a normal distribution of variance 1: scales are in the network."""
    draw = torch.Generator().manual_seed(seed)
    sizes = [inputs, *[width] * hidden, 1]
    return tuple(torch.randn(above, below, generator=draw) for below, above in pairwise(sizes))


def network(weights: Weights, x: Tensor) -> Tensor:
    """Outputs (n,) for inputs (n, d): each layer is divided by the root of its inputs, rectified ones count twice (Jacot et al., 2018)."""
    first, *others = weights
    x = x @ first.T / math.sqrt(first.shape[1])
    for each in others:
        x = x.relu() @ each.T * math.sqrt(2 / each.shape[1])
    return x.squeeze(1)


def tangent_row(weights: Weights, x: Tensor, row: int) -> Tensor:
    """Row `row` of Θ = J Jᵀ, (n,): the gradient of one output by one pass back, and the change of all outputs along it by one forward."""
    back: Callable[[Tensor], tuple[Weights]] = vjp(lambda given: network(given, x[row : row + 1]), weights)[1]
    (gradient,) = back(torch.ones(1))
    changes: Tensor = jvp(lambda given: network(given, x), (weights,), (gradient,))[1]
    return changes


def kernel_by_workers(weights: Weights, x: Tensor, workers: int = 4, on: Simulator | None = None) -> Tensor:
    """Θ (n, n): the rows are dealt to workers, which add theirs to a table."""

    def train(worker: Worker) -> None:
        table = worker.table("kernel", rows=len(x), columns=len(x))
        for row in range(worker.rank, len(x), worker.workers):
            worker.count(1)
            table.inc(torch.tensor([row]), tangent_row(weights, x, row)[None])
            table.clock()

    return run(train, workers=workers, strategy="ssp", on=on or Simulator(network=Instant())).weights["kernel"]


def limit_kernel(x: Tensor, hidden: int) -> Tensor:
    """Θ of infinite width, by the recursion of arc-cosine kernels (Cho and Saul, 2009; Jacot et al., 2018, theorem 1)."""
    covariance = (x @ x.T / x.shape[1]).double()
    kernel = covariance
    for _ in range(hidden):
        spread = covariance.diagonal().sqrt()
        scale = spread[:, None] * spread
        angle = (covariance / scale).clamp(-1, 1).acos()
        active = (math.pi - angle) / math.pi  # 2 E[φ'φ']
        covariance = scale * (angle.sin() + (math.pi - angle) * angle.cos()) / math.pi  # 2 E[φφ]
        kernel = covariance + kernel * active
    return kernel


def descended(weights: Weights, x: Tensor, y: Tensor, rate: float, steps: int) -> Weights:
    """The weights after so many steps of gradient descent on the mean of half the squared error."""
    slope = grad(lambda given: (network(given, x) - y).square().mean() / 2)
    for _ in range(steps):
        weights = tuple(each - rate * change for each, change in zip(weights, slope(weights), strict=True))
    return weights


def relative(found: Tensor, expected: Tensor) -> float:
    """The norm of the difference over that of what is expected."""
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of a line through logarithms, by least squares."""
    return fitted([math.log(each) for each in sizes], [math.log(each) for each in values]).slope
