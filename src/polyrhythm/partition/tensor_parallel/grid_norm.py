"""Layer normalisation of activations whose features are divided along an axis."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.tensor_parallel.grid import Features, SpreadParameter
from polyrhythm.partition.tensor_parallel.marks import marked


def normalized(value: Tensor, axis: Axis, width: int, eps: float) -> Tensor:
    """The activation (…, own of `width` features), varying along the axis, less its mean and divided by its deviation."""
    return _Normalize.apply(value, axis, width, eps)  # type: ignore[no-any-return,no-untyped-call]


class GridNorm(nn.Module):
    """`nn.LayerNorm` of one dimension: (own samples, …, own features) to the same."""

    def __init__(
        self, weight: nn.Parameter | None, bias: nn.Parameter | None, spread: SpreadParameter, features: Features, eps: float
    ) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.normalized_shape, self.eps = (features.width,), eps
        self._spread, self._features = spread, features

    def forward(self, value: Tensor) -> Tensor:
        grid = self._spread.grid
        self._features.check(value, grid)
        found = normalized(value, grid.column, self._features.width, self.eps)
        if self.weight is not None:
            found = found * self._spread.whole(self.weight)
        return marked(found if self.bias is None else found + self._spread.whole(self.bias), grid)


class _Normalize(Function):
    """The ranks' means and sums of squares are combined as in Chan et al., 1983, which does not subtract large numbers."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis, width: int, eps: float) -> Tensor:
        wide = value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
        own = wide.shape[-1]
        mean = wide.sum(-1) / max(own, 1)
        squares = (wide - mean.unsqueeze(-1)).square().sum(-1)
        parts = axis.all_gather(torch.stack([mean, squares, torch.full_like(mean, own)]).unsqueeze(0), 0, (1,) * axis.size)
        means, squares, counts = parts.unbind(1)
        mean = (means * counts).sum(0) / width
        variance = (squares.sum(0) + (counts * (means - mean).square()).sum(0)) / width
        scale = (variance + eps).rsqrt().unsqueeze(-1)
        found = (wide - mean.unsqueeze(-1)) * scale
        ctx.axis, ctx.width = axis, width
        ctx.save_for_backward(found, scale)
        return found.to(value.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        found, scale = ctx.saved_tensors
        wide = gradient.to(found.dtype)
        sums = ctx.axis.all_reduce(torch.stack([wide.sum(-1), (wide * found).sum(-1)])).unsqueeze(-1) / ctx.width
        return ((wide - sums[0] - found * sums[1]) * scale).to(gradient.dtype), None, None, None
