"""A move along an axis: from parts of a whole to stretches of it that may overlap, such as parts with a margin around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from polyrhythm.partition.axis import Axis, Sizes, starts
from polyrhythm.partition.piece import Span


def windows(value: Tensor, axis: Axis, dim: int, sizes: Sizes, wanted: Sequence[Span]) -> Tensor:
    """Varying to varying: of a whole that is divided along `dim` by `sizes`, the stretch that each rank has in `wanted`.

    Stretches may overlap, and leave something out; the gradients of each element are added up where it came from. Ranks send only what
    others want of theirs.
    """
    owned = tuple((start, start + size) for start, size in zip(starts(sizes), sizes, strict=True))
    if tuple(wanted) == owned:
        return value
    return _Windows.apply(value, axis, dim, owned, tuple(wanted))  # type: ignore[no-any-return,no-untyped-call]


class _Windows(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, axis: Axis, dim: int, owned: tuple[Span, ...], wanted: tuple[Span, ...]) -> Tensor:
        mine = axis.index
        ctx.axis, ctx.dim, ctx.shape = axis, dim, value.shape
        ctx.given = {k: span for k in range(axis.size) if (span := _overlap(owned[mine], wanted[k], owned[mine][0]))}
        ctx.taken = {k: span for k in range(axis.size) if (span := _overlap(owned[k], wanted[mine], wanted[mine][0]))}
        found = _sent(value, axis, dim, ctx.given, ctx.taken)
        return torch.cat([found[k] for k in sorted(found)], dim) if found else value.narrow(dim, 0, 0).clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        found = _sent(gradient, ctx.axis, ctx.dim, ctx.taken, ctx.given)
        whole = gradient.new_zeros(ctx.shape)
        for k in sorted(found):
            _narrow(whole, ctx.dim, ctx.given[k]).add_(found[k])
        return whole, None, None, None, None


def _sent(value: Tensor, axis: Axis, dim: int, given: dict[int, Span], taken: dict[int, Span]) -> dict[int, Tensor]:
    """What this rank has after it has given these spans of `value`, one to each coordinate, and taken others."""
    parts = {k: _narrow(value, dim, span) for k, span in given.items()}
    kept = {k: part for k, part in parts.items() if k == axis.index}
    shapes: dict[int, Sequence[int]] = {k: _with(value, dim, span[1] - span[0]) for k, span in taken.items() if k != axis.index}
    return kept | axis.exchange({k: part for k, part in parts.items() if k != axis.index}, shapes, value)


def _overlap(one: Span, other: Span, begin: int) -> Span | None:
    """What the two have in common, counted from `begin`."""
    start, end = max(one[0], other[0]), min(one[1], other[1])
    return (start - begin, end - begin) if start < end else None


def _narrow(value: Tensor, dim: int, span: Span) -> Tensor:
    return value.narrow(dim, span[0], span[1] - span[0])


def _with(value: Tensor, dim: int, length: int) -> list[int]:
    shape = list(value.shape)
    shape[dim] = length
    return shape
