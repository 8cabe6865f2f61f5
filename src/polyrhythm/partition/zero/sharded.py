"""A parameter whose rows are divided among the replicas of an axis."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis, Sizes, near_equal, starts
from polyrhythm.partition.placement import Placement, origin_of, originated, placed, placement_of


class ShardedParameter:
    """The rows of a parameter that this rank has, as `shard`; rank k has `rows[k]` of them, and those left over go to the ranks in turn.

    `number` counts the parameters of the model. One without a dimension has one row.
    """

    def __init__(self, parameter: nn.Parameter, axis: Axis, number: int) -> None:
        before, value = placement_of(parameter), rows_of(parameter.detach())
        self.shape = parameter.shape
        self.rows: Sizes = _turned(near_equal(len(value), axis.size), number)
        start = starts(self.rows)[axis.index]
        end = start + self.rows[axis.index]
        self.shard = nn.Parameter(value[start:end].clone(), parameter.requires_grad)
        if parameter.is_meta:
            originated(self.shard, *origin_of(parameter, f"parameter {number}"))
        placed(self.shard, Placement(before.piece.rows(start, end), (*before.axes, axis.name), before.copy_of))

    def parts(self, whole: Tensor) -> tuple[Tensor, ...]:
        """The rows of each rank in a whole tensor, as views."""
        return torch.split(rows_of(whole), list(self.rows))


def by_rank(parameters: Sequence[ShardedParameter], wholes: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """The rows of each rank in whole tensors, one for each parameter, as views."""
    return list(zip(*(each.parts(whole) for each, whole in zip(parameters, wholes, strict=True)), strict=True))


def rows_of(tensor: Tensor) -> Tensor:
    """The tensor, with one row if it has no dimension."""
    return tensor if tensor.dim() else tensor.view(1)


def _turned(given: Sizes, by: int) -> Sizes:
    by %= len(given)
    return (*given[len(given) - by :], *given[: len(given) - by])
