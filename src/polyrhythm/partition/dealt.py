"""A move along an axis: rows that are dealt out to ranks, as many to each as it is to have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from polyrhythm.partition.axis import Axis, Sizes


def deal(rows: Tensor, axis: Axis, sent: Sizes, got: Sizes) -> Tensor:
    """Varying to varying: the first `sent[0]` rows to coordinate 0, and so on; what each has sent here, `got[k]` rows from k.

    The gradients of the rows go back.
    """
    return _Deal.apply(rows, axis, tuple(sent), tuple(got)) if axis.size > 1 else rows  # type: ignore[no-untyped-call]


class _Deal(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, axis: Axis, sent: tuple[int, ...], got: tuple[int, ...]) -> Tensor:
        ctx.axis, ctx.back = axis, (got, sent)
        return _dealt(rows, axis, sent, got)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return _dealt(gradient, ctx.axis, *ctx.back), None, None, None


def _dealt(rows: Tensor, axis: Axis, sent: tuple[int, ...], got: tuple[int, ...]) -> Tensor:
    shapes = [(size, *rows.shape[1:]) for size in got]
    return torch.cat(axis.all_to_all(torch.split(rows, list(sent)), shapes))
