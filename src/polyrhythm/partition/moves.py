"""What moves between the ranks of an axis in a forward pass, with what that means for gradients.

A tensor has one of four types along an axis, which say what the ranks' values have to do with each other:

- *invariant*: equal at all ranks, and so is its gradient;
- *replicated*: equal at all ranks, each of which has a part of the gradient: the sum is pending;
- *varying*: each rank has its own, such as a shard;
- *partial*: the value is the sum of all ranks'.

Each function turns one type into another, and its gradient back. Modules of a partition are written with them: where a partial value is
read as if it were whole, the code has a wrong name in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from polyrhythm.partition.axis import Axis, Sizes, near_equal, starts


def replicate(value: Tensor, axis: Axis) -> Tensor:
    """Invariant to replicated: the same value; its gradient is the sum over the axis. Megatron's f."""
    return _Replicate.apply(value, axis) if axis.size > 1 else value  # type: ignore[no-untyped-call]


def replicate_together(values: Sequence[Tensor], axis: Axis) -> tuple[Tensor, ...]:
    """`replicate` of several values, whose gradients are added up in one operation."""
    return _ReplicateTogether.apply(axis, *values) if axis.size > 1 and values else tuple(values)  # type: ignore[no-untyped-call]


def total(value: Tensor, axis: Axis) -> Tensor:
    """Partial to invariant: the sum over the axis; the gradient is passed on. Megatron's g."""
    return _Total.apply(value, axis) if axis.size > 1 else value  # type: ignore[no-untyped-call]


def total_replicated(value: Tensor, axis: Axis) -> Tensor:
    """Partial to replicated: the sum over the axis, and of its gradients too."""
    return replicate(total(value, axis), axis)


def shard(value: Tensor, axis: Axis, dim: int, sizes: Sizes | None = None) -> Tensor:
    """Invariant to varying: this rank's part along `dim`; the gradient is that of all parts."""
    chosen = near_equal(value.shape[dim], axis.size) if sizes is None else tuple(sizes)
    return _Shard.apply(value, axis, dim, chosen) if axis.size > 1 else value  # type: ignore[no-untyped-call]


def gather(value: Tensor, axis: Axis, dim: int, sizes: Sizes) -> Tensor:
    """Varying to invariant: all parts end to end along `dim`; the gradient is this rank's part."""
    return _Gather.apply(value, axis, dim, tuple(sizes)) if axis.size > 1 else value  # type: ignore[no-untyped-call]


def gather_replicated(value: Tensor, axis: Axis, dim: int, sizes: Sizes) -> Tensor:
    """Varying to replicated: all parts end to end along `dim`; the gradient is this rank's part of the sum of all gradients."""
    return _GatherReplicated.apply(value, axis, dim, tuple(sizes)) if axis.size > 1 else value  # type: ignore[no-untyped-call]


def scatter_total(value: Tensor, axis: Axis, dim: int, sizes: Sizes | None = None) -> Tensor:
    """Partial to varying: this rank's part along `dim` of the sum; the gradient is that of all parts."""
    chosen = near_equal(value.shape[dim], axis.size) if sizes is None else tuple(sizes)
    return _ScatterTotal.apply(value, axis, dim, chosen) if axis.size > 1 else value  # type: ignore[no-untyped-call]


def transpose(value: Tensor, axis: Axis, split: int, split_sizes: Sizes, join: int, join_sizes: Sizes) -> Tensor:
    """Varying to varying: what was divided along `join`, with these sizes, is divided along `split`; the gradient goes back."""
    if axis.size == 1:
        return value
    return _Transpose.apply(value, axis, split, tuple(split_sizes), join, tuple(join_sizes))  # type: ignore[no-any-return,no-untyped-call]


def shift(value: Tensor, axis: Axis, by: int, shape: Sequence[int] | None = None) -> Tensor:
    """Varying to varying: what the coordinate `by` before this one has, of that `shape`; the gradient goes back around the ring."""
    if axis.size == 1:
        return value
    return _Shift.apply(value, axis, by, tuple(value.shape if shape is None else shape))  # type: ignore[no-any-return,no-untyped-call]


class _Replicate(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis) -> Tensor:
        ctx.axis = axis
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.axis.all_reduce(gradient), None


class _ReplicateTogether(Function):
    @staticmethod
    def forward(ctx: Any, axis: Axis, *values: Tensor) -> tuple[Tensor, ...]:
        ctx.axis = axis
        ctx.set_materialize_grads(False)
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        given = [gradient for gradient in gradients if gradient is not None]
        flat = ctx.axis.all_reduce(torch.cat([gradient.reshape(-1) for gradient in given]))
        sums = iter(zip(given, torch.split(flat, [gradient.numel() for gradient in given]), strict=True))
        return None, *(None if gradient is None else _like(*next(sums)) for gradient in gradients)


def _like(one: Tensor, flat: Tensor) -> Tensor:
    return flat.view(one.shape).to(one.dtype)


class _Total(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis) -> Tensor:
        return axis.all_reduce(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient, None


class _Shard(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis, dim: int, sizes: Sizes) -> Tensor:
        ctx.axis, ctx.dim, ctx.sizes = axis, dim, sizes
        return value.narrow(dim, starts(sizes)[axis.index], sizes[axis.index]).contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.axis.all_gather(gradient, ctx.dim, ctx.sizes), None, None, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis, dim: int, sizes: Sizes) -> Tensor:
        ctx.axis, ctx.dim, ctx.sizes = axis, dim, sizes
        return axis.all_gather(value, dim, sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        own = gradient.narrow(ctx.dim, starts(ctx.sizes)[ctx.axis.index], ctx.sizes[ctx.axis.index])
        return own.contiguous(), None, None, None


class _GatherReplicated(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis, dim: int, sizes: Sizes) -> Tensor:
        ctx.axis, ctx.dim, ctx.sizes = axis, dim, sizes
        return axis.all_gather(value, dim, sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.axis.reduce_scatter(gradient, ctx.dim, ctx.sizes), None, None, None


class _ScatterTotal(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis, dim: int, sizes: Sizes) -> Tensor:
        ctx.axis, ctx.dim, ctx.sizes = axis, dim, sizes
        return axis.reduce_scatter(value, dim, sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.axis.all_gather(gradient, ctx.dim, ctx.sizes), None, None, None


def transposed(value: Tensor, axis: Axis, split: int, split_sizes: Sizes, join: int, join_sizes: Sizes) -> Tensor:
    """`transpose` without a gradient."""
    parts = torch.split(value, list(split_sizes), dim=split)
    shapes = []
    for size in join_sizes:
        shape = list(value.shape)
        shape[split], shape[join] = split_sizes[axis.index], size
        shapes.append(shape)
    return torch.cat(axis.all_to_all(parts, shapes), dim=join)


class _Transpose(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis, split: int, split_sizes: Sizes, join: int, join_sizes: Sizes) -> Tensor:
        ctx.axis, ctx.back = axis, (join, join_sizes, split, split_sizes)
        return transposed(value, axis, split, split_sizes, join, join_sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return transposed(gradient, ctx.axis, *ctx.back), None, None, None, None, None


class _Shift(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis, by: int, shape: tuple[int, ...]) -> Tensor:
        ctx.axis, ctx.by, ctx.shape = axis, by, tuple(value.shape)
        return axis.shift(value, by, shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.axis.shift(gradient, -ctx.by, ctx.shape), None, None, None
