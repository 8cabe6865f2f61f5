"""Batch norms whose samples or images are divided: over which ranks' data the statistics are is said, not left to chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.equal_weights import replicated
from polyrhythm.partition.kinds import BATCH_NORMS
from polyrhythm.partition.place import Place


@dataclass(frozen=True, slots=True)
class SpatialNorm:
    """Keep an `nn.BatchNorm2d` whole where samples or images are divided over `axes`, with the statistics that one device has.

    `statistics` are the axes over which the statistics are, by default all of `axes`. With fewer, the result is not that of one device:
    with () each rank has those of its own part, and ranks keep different running ones.
    """

    ends: ClassVar = False
    by_samples: ClassVar = True

    axes: tuple[str, ...]
    statistics: tuple[str, ...] | None = None

    def among(self, samples: tuple[str, ...], axes: tuple[str | None, str | None]) -> SpatialNorm:
        """With the statistics over all ranks."""
        return SpatialNorm((*samples, *(axis for axis in axes if axis)))

    @property
    def along(self) -> tuple[str, ...]:
        return self.axes

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, BATCH_NORMS) or isinstance(module, nn.modules.lazy.LazyModuleMixin):
            return f"SpatialNorm is for batch norms, and this is {type(module).__name__}: name batch norms."
        if self.statistics is not None and not set(self.statistics) <= set(self.axes):
            return f"statistics={self.statistics} has axes that are not among axes={self.axes}: name them there too."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        over = self.axes if self.statistics is None else self.statistics
        return NormOfAll(place.keep(module, name), [place.axis(each) for each in self.axes], [place.axis(each) for each in over])


class NormOfAll(nn.Module):
    """A batch norm of (samples, channels, …), of which the ranks of `axes` have parts; its statistics are over those of `over`."""

    def __init__(self, whole: Any, axes: Sequence[Axis], over: Sequence[Axis]) -> None:
        super().__init__()
        self.weight, self.bias = whole.weight, whole.bias
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(whole, name))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.num_batches_tracked: Tensor
        self.eps, self.momentum, self.track_running_stats = whole.eps, whole.momentum, whole.track_running_stats
        self._axes, self._over = tuple(axes), tuple(over)

    def forward(self, value: Tensor) -> Tensor:
        weights: dict[str, Any] = {"weight": self.weight, "bias": self.bias} | replicated(self, self._axes)
        if not self.training and self.running_mean is not None:
            return F.batch_norm(value, self.running_mean, self.running_var, weights["weight"], weights["bias"], False, 0.0, self.eps)
        found, mean, variance, count = _Norm.apply(value, weights["weight"], weights["bias"], self._over, self.eps)  # type: ignore[no-untyped-call]
        if self.training and self.track_running_stats:
            self._remember(mean, variance * count / (count - 1))
        return found  # type: ignore[no-any-return]

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        self.num_batches_tracked += 1
        share: Any = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        self.running_mean.copy_(mean * share + self.running_mean * (1 - share))
        self.running_var.copy_(variance * share + self.running_var * (1 - share))


def _total(value: Tensor, over: Sequence[Axis]) -> Tensor:
    for axis in over:
        value = axis.all_reduce(value)
    return value


def _wide(value: Tensor) -> Tensor:
    return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value


class _Norm(Function):
    """The normalized value, with the mean, the variance and the number of elements of each channel.

    The variance is computed from the distances to the mean, in a second sum: that of squares would lose its digits where the mean is large.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, weight: Tensor | None, bias: Tensor | None, over: Sequence[Axis], eps: float) -> Any:
        x, dims = _wide(value), [0, *range(2, value.dim())]
        channels = (1, -1, *[1] * (value.dim() - 2))
        here = x.new_full((1,), value.numel() / max(value.shape[1], 1))
        sums = _total(torch.cat([x.sum(dims), here]), over)
        count, mean = sums[-1], sums[:-1] / sums[-1]
        found = x - mean.view(channels)  # and the rest in its memory: an image is large beside all else
        variance = _total(found.square().sum(dims), over) / count
        scale = (variance + eps).rsqrt()
        found.mul_(scale.view(channels))
        found = found if weight is None else found.mul_(weight.view(channels))
        found = found if bias is None else found.add_(bias.view(channels))
        ctx.save_for_backward(value, weight, mean, scale, count)
        ctx.over, ctx.dims, ctx.channels, ctx.biased = over, dims, channels, bias is not None
        ctx.mark_non_differentiable(mean, variance, count)
        return found.to(value.dtype), mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *others: Any) -> Any:
        value, weight, mean, scale, count = ctx.saved_tensors
        slope = _wide(gradient)
        normal = (_wide(value) - mean.view(ctx.channels)).mul_(scale.view(ctx.channels))
        own = torch.stack([slope.sum(ctx.dims), (slope * normal).sum(ctx.dims)])
        of_mean, of_scale = _total(own, ctx.over) / count
        found = slope - of_mean.view(ctx.channels)
        found.sub_(normal.mul_(of_scale.view(ctx.channels))).mul_(scale.view(ctx.channels))
        found = found if weight is None else found.mul_(weight.view(ctx.channels))
        of_bias = own[0].to(gradient.dtype) if ctx.biased else None
        return found.to(value.dtype), None if weight is None else own[1].to(weight.dtype), of_bias, None, None
