"""A parameter whose rows are divided among the replicas of an axis, and vectors of the rows of several."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

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
        self.width = prod(value.shape[1:])
        start = starts(self.rows)[axis.index]
        end = start + self.rows[axis.index]
        self.shard = nn.Parameter(value[start:end].clone(), parameter.requires_grad)
        if parameter.is_meta:
            originated(self.shard, *origin_of(parameter, f"parameter {number}"))
        placed(self.shard, Placement(before.piece.rows(start, end), (*before.axes, axis.name), before.copy_of))

    def part(self, flat: Tensor, rank: int) -> Tensor:
        """The rows of a rank, which lie in `flat` (numel,), as a view."""
        return flat.view(self.rows[rank], *rows_of_shape(self.shape)[1:])


def sizes(parameters: Sequence[ShardedParameter], ranks: int) -> tuple[int, ...]:
    """The elements of each rank."""
    return tuple(sum(each.rows[rank] * each.width for each in parameters) for rank in range(ranks))


def joined(parameters: Sequence[ShardedParameter], wholes: Sequence[Tensor], ranks: int) -> Tensor:
    """The vectors of all ranks end to end (numel,), of whole tensors."""
    cut = [torch.split(rows_of(whole), list(each.rows)) for each, whole in zip(parameters, wholes, strict=True)]
    return torch.cat([rows[rank].reshape(-1) for rank in range(ranks) for rows in cut])


def parts(parameters: Sequence[ShardedParameter], flat: Tensor, rank: int) -> list[Tensor]:
    """The rows of each parameter in the vector of a rank, as views."""
    cut = torch.split(flat, [each.rows[rank] * each.width for each in parameters])
    return [each.part(part, rank) for each, part in zip(parameters, cut, strict=True)]


def put_together(parameters: Sequence[ShardedParameter], flat: Tensor, ranks: int) -> list[Tensor]:
    """The whole tensors, of the vectors of all ranks end to end."""
    by_rank = [parts(parameters, own, rank) for rank, own in enumerate(torch.split(flat, list(sizes(parameters, ranks))))]
    return [torch.cat(list(rows)).view(each.shape) for each, rows in zip(parameters, zip(*by_rank, strict=True), strict=True)]


def rows_of(tensor: Tensor) -> Tensor:
    """The tensor, with one row if it has no dimension."""
    return tensor if tensor.dim() else tensor.view(1)


def rows_of_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape, with one row if it has no dimension."""
    return tuple(shape) or (1,)


def _turned(given: Sizes, by: int) -> Sizes:
    by %= len(given)
    return (*given[len(given) - by :], *given[: len(given) - by])
