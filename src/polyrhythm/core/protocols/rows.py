"""Rows of a vector's matrices, as tensors that can be sent."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyrhythm.core.tensors import Layout

MOST_ROWS = 2**31
"""Rows of a matrix that an index of 31 bits can name."""

RowTensors = tuple[Tensor, Tensor, Tensor]
"""Indices, int32, and values of rows, both end to end; and the tensors that have no rows, end to end."""


def row_counts(layout: Layout) -> list[int]:
    """Rows of each matrix: of each tensor of two or more dimensions."""
    return [shape[0] for shape in layout.shapes if len(shape) > 1]


def split_rows(flat: Tensor, layout: Layout, chosen: Sequence[Tensor]) -> RowTensors:
    """The rows `chosen` (k,) of each matrix in `flat` (numel,), and all of the other tensors; in new memory."""
    views = layout.views(flat)
    matrices = [view for view in views if view.dim() > 1]
    rows = [matrix.index_select(0, indices).reshape(-1) for matrix, indices in zip(matrices, chosen, strict=True)]
    others = [view.reshape(-1) for view in views if view.dim() <= 1]
    nothing = flat.new_empty(0)
    indices = torch.cat([*chosen, torch.empty(0, dtype=torch.int64)]).to(torch.int32)
    return indices, torch.cat([nothing, *rows]), torch.cat([nothing, *others])


def join_rows(flat: Tensor, layout: Layout, counts: Sequence[int], tensors: Sequence[Tensor]) -> None:
    """Write the tensors of `split_rows` into `flat` (numel,); `counts` are the rows of each matrix."""
    indices, rows, others = tensors
    at = start = place = number = 0
    for view in layout.views(flat):
        if view.dim() <= 1:
            view.copy_(others[place : place + view.numel()].view(view.shape))
            place += view.numel()
            continue
        count, width = counts[number], view[:1].numel()
        number += 1
        view.index_copy_(0, indices[at : at + count].long(), rows[start : start + count * width].view(count, *view.shape[1:]))
        at, start = at + count, start + count * width
