"""Trust ratios: the step of each layer scaled in proportion to the norm of its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.merge import Direction
from polyrhythm.core.tensors import without_gradient


def scaled_by_layer(
    direction: Direction, context: ExchangeContext, trust: float, weight_decay: float, limit: Callable[[float], float]
) -> Direction:
    """`direction` with limit(λ) (g + β w) for the mean gradient g of each tensor, λ = trust ‖w‖ / (‖g‖ + β ‖w‖), β the `weight_decay`.

    A tensor whose weights or gradient are zero, or which has none, keeps its gradient as it is. The context has the weights and layout.
    """
    mean = direction.average()
    gradients, weights = context.layout.views(mean), context.layout.views(context.weights)
    absent = without_gradient([gradient.view(-1) for gradient in gradients])
    for gradient, held, missing in zip(gradients, weights, absent, strict=True):
        size, steep = _norm(held), _norm(gradient)
        if missing or not size or not steep:
            continue
        ratio = limit(trust * size / (steep + weight_decay * size))
        gradient.copy_((gradient + weight_decay * held if weight_decay else gradient) * ratio)
    return replace(direction, total=mean.mul_(direction.weight))


def _norm(tensor: Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
