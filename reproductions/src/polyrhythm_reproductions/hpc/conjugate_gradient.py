"""Conjugate gradients (Hestenes & Stiefel, 1952) for a matrix whose rows are divided among ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.partition.axis import Axis, Sizes, near_equal, starts


@dataclass(frozen=True, slots=True)
class Solved:
    """This rank's rows of the solution, the norm of the residual over that of b, and the iterations."""

    rows: Tensor
    residual: float
    iterations: int


def laplacian_rows(side: int, parts: int, index: int) -> tuple[Tensor, tuple[int, ...]]:
    """A rank's rows of the five-point Laplacian on a square of `side` x `side`, in float64, and the sizes of all ranks."""
    line = 2 * torch.eye(side, dtype=torch.float64) - torch.diag(torch.ones(side - 1, dtype=torch.float64), 1)
    line -= torch.diag(torch.ones(side - 1, dtype=torch.float64), -1)
    whole = torch.kron(line, torch.eye(side, dtype=torch.float64)) + torch.kron(torch.eye(side, dtype=torch.float64), line)
    sizes = near_equal(side * side, parts)
    start = starts(sizes)[index]
    return whole[start : start + sizes[index]], sizes


def conjugate_gradient(axis: Axis, matrix: Tensor, right: Tensor, sizes: Sizes, tolerance: float = 1e-9, most: int = 1000) -> Solved:
    """Solve A x = b for the rows `matrix` of a symmetric positive definite A, and `right` of b, to a relative residual.

    An iteration gathers the direction, and makes two sums over all ranks.
    """
    # x, r and p as in Hestenes & Stiefel
    x, r, p = torch.zeros_like(right), right.clone(), right.clone()
    squares = axis.all_reduce(r.dot(r).view(1))
    goal = tolerance**2 * squares.item()
    iterations = 0
    while squares.item() > goal and iterations < most:
        product = matrix @ axis.all_gather(p, 0, sizes)
        step = squares / axis.all_reduce(p.dot(product).view(1))
        x, r = x + step * p, r - step * product
        before, squares = squares, axis.all_reduce(r.dot(r).view(1))
        p = r + squares / before * p
        iterations += 1
    missing = right - matrix @ axis.all_gather(x, 0, sizes)
    norms = axis.all_reduce(torch.stack([missing.dot(missing), right.dot(right)]))
    return Solved(x, float((norms[0] / norms[1]).sqrt()), iterations)
