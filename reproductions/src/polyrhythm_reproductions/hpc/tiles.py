"""A product of matrices in tiles: each rank has rows of the first and of the second, whose tiles go around."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.partition.axis import Axis, Sizes, starts


def tiled_product(axis: Axis, left: Tensor, right: Tensor, sizes: Sizes) -> Tensor:
    """This rank's rows of A B, where `left` are its rows of A, and `right` its `sizes[index]` rows of B."""
    total = left.new_zeros(left.shape[0], right.shape[1])
    first = starts(sizes)
    for hop in range(axis.size):
        owner = (axis.index - hop) % axis.size
        total += left[:, first[owner] : first[owner] + sizes[owner]] @ right
        if hop + 1 < axis.size:
            right = axis.shift(right, 1, (sizes[(owner - 1) % axis.size], right.shape[1]))
    return total
