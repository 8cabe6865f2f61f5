"""Neural tangents: how far the kernel of a finite network is from that of infinite width, and how far training moves it."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm_reproductions.jobs.tangent_kernel import (
    descended,
    drawn_weights,
    exponent,
    kernel_by_workers,
    limit_kernel,
    network,
    relative,
)
from polyrhythm_reproductions.protocol import Claim, ClaimKind, Efficiency, Figures, Reproduction
from polyrhythm_reproductions.trial import ArmTrial

_WIDTHS = (64, 128, 256, 512, 1024, 2048)
_SAMPLES, _INPUTS, _HIDDEN = 16, 10, 2
_RATE, _STEPS = 0.5, 200
_NETWORKS = 6
"""Of each width; the exponent of one network each is as noisy as its six kernels."""


def measure(trial: ArmTrial) -> Figures:
    """The exponents with which the errors and the changes of kernels fall with the width."""
    widths, steps = trial.size(_WIDTHS, _WIDTHS[:4]), trial.size(_STEPS, 50)
    draw = torch.Generator().manual_seed(trial.seed)
    x = torch.randn(_SAMPLES, _INPUTS, generator=draw)
    x *= _INPUTS**0.5 / x.norm(dim=1, keepdim=True)
    y = torch.randn(_SAMPLES, generator=draw)
    limit = limit_kernel(x, _HIDDEN)
    errors, changes, products = list[float](), list[float](), list[float]()
    for width in widths:
        found = [_distances(width, trial.seed * _NETWORKS + each, x, y, steps) for each in range(trial.size(_NETWORKS, 2))]
        errors.append(sum(relative(before, limit) for before, _ in found) / len(found))
        changes.append(sum(relative(after, before) for before, after in found) / len(found))
        if width <= 128:
            products.append(_jacobian_gap(drawn_weights(_INPUTS, width, _HIDDEN, trial.seed * _NETWORKS), x, found[0][0]))
    change = exponent(widths, changes)
    return {"error": exponent(widths, errors), "change": change, "rate": change, "product": max(products)}


def _distances(width: int, seed: int, x: Tensor, y: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """The kernel of one network before and after its training."""
    weights = drawn_weights(_INPUTS, width, _HIDDEN, seed)
    return kernel_by_workers(weights, x), kernel_by_workers(descended(weights, x, y, _RATE, steps), x)


def _jacobian_gap(weights: tuple[Tensor, ...], x: Tensor, kernel: Tensor) -> float:
    """The difference of a kernel of rows from the product of whole Jacobians."""
    jacobian = torch.func.jacrev(lambda given: network(given, x))(weights)
    flat = torch.cat([each.flatten(1) for each in jacobian], dim=1)
    return relative(kernel, flat @ flat.T)


REPRODUCTION = Reproduction(
    name="neural-tangents",
    systems=(),
    paper="Novak et al.: Neural Tangents: Fast and Easy Infinite Neural Networks in Python (ICLR 2020); Jacot, Gabriel, Hongler: Neural "
    "Tangent Kernel (NeurIPS 2018); Lee et al.: Wide Neural Networks of Any Depth Evolve as Linear Models (NeurIPS 2019)",
    setting="ReLU networks of two hidden layers of 64 to 2,048 units, in the parametrization of the kernel, on 16 inputs of 10 numbers of "
    "equal norm with targets from a normal distribution; 200 steps of gradient descent on all of them, six networks of each "
    "width and seed. Rows of the kernel are computed by "
    "4 workers, one pass back and one forward each, and added to a table.",
    measure=measure,
    stop="after 200 steps, as fixed beforehand",
    notes="Scaled down from the papers' 60,000 images and widths of 16,384: exponents need widths that differ, not many inputs. Lee et al. "
    "prove that the change falls at least as fast as the root of the width, and observe that it falls faster, nearly as one over the "
    "width. The third claim is that of our specification, an exponent of -0.5 of the change too, and fails as they observe.",
    claims=(
        Claim(
            paper="The kernel of a finite network comes to that of infinite width as its width grows, as one over the root of the width.",
            ours="exponent of the width in the relative distance from the analytic kernel at the beginning",
            figure="error",
            changed="In a first run each seed had one network of each width, and exponents were "
            "-0.499 (-0.720 to -0.383). Now they are of "
            "means over six; the bounds are the same",
            unit="1",
            least=-0.65,
            most=-0.35,
            efficiency=Efficiency.EXACT,
        ),
        Claim(
            paper="The change of the kernel by training is bounded by one over the root of the width: wide networks are linear models.",
            ours="exponent of the width in the relative change of the kernel by training",
            figure="change",
            changed="In a first run each seed had one network of each width, and exponents were "
            "-0.615 (-0.677 to -0.545). Now they are of "
            "means over six; the bounds are the same",
            unit="1",
            most=-0.35,
            efficiency=Efficiency.STATISTICAL,
        ),
        Claim(
            paper="(Wanted by our specification, which no paper states) The change falls at the rate of that bound, and not faster.",
            ours="exponent of the width in the relative change of the kernel by training",
            figure="rate",
            changed="In a first run each seed had one network of each width, and exponents were "
            "-0.615 (-0.677 to -0.545). Now they are of "
            "means over six; the bounds are the same",
            unit="1",
            least=-0.65,
            most=-0.35,
            efficiency=Efficiency.STATISTICAL,
        ),
        Claim(
            paper="A row of the kernel is a product with the Jacobian and its transpose, which is never stored.",
            ours="largest relative difference of a kernel of rows from the product of whole Jacobians, widths 64 and 128",
            figure="product",
            unit="difference",
            most=1e-5,
            efficiency=Efficiency.EXACT,
            kind=ClaimKind.VALUE,
        ),
    ),
)
