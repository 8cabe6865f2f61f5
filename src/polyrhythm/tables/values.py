"""Checks of the element types of tables, and of the values that are added to them."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError, WorkloadError

_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64)


def checked_type(kind: str, dtype: object) -> None:
    """Raise CompositionError for a type that a table's elements cannot have."""
    if dtype not in _TYPES:
        known = ", ".join(str(each) for each in _TYPES)
        raise CompositionError(f"{kind}({dtype!r}) cannot be: elements of a table are numbers that can be added, of one of {known}.")


def matching(values: Tensor, columns: int, dtype: torch.dtype) -> Tensor:
    """`values` on the CPU and without gradients. Raises WorkloadError for rows of another width, or a type that would lose precision."""
    if values.dim() != 2 or values.shape[1] != columns:
        raise WorkloadError(f"Values of shape {tuple(values.shape)} are no rows of {columns} columns: give a tensor (rows, {columns}).")
    if not torch.can_cast(values.dtype, dtype):
        raise WorkloadError(
            f"Values of {values.dtype} cannot be added to a table of {dtype} without loss: convert them, or give row= another dtype."
        )
    return values.detach().cpu()
