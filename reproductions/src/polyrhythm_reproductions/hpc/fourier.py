"""A Fourier transform in four steps (Bailey, 1990): short transforms of columns, twiddles, an exchange of all, short transforms of rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polyrhythm.partition.axis import Axis, near_equal, starts
from polyrhythm.partition.moves import transposed


def fourier_transform(axis: Axis, values: Tensor, rows: int, columns: int) -> Tensor:
    """This rank's part of the transform of `rows` x `columns` numbers, of which `values` are its columns, as (rows, own columns).

    Complex in and out. The result is (own rows, columns): element (k, l) is number k + rows l of the transform, so that all ranks'
    results end to end are its transpose. Short transforms are products with matrices.
    """
    own, theirs = near_equal(columns, axis.size), near_equal(rows, axis.size)
    columns_here = torch.arange(own[axis.index]) + starts(own)[axis.index]
    turned = _matrix(rows, values.dtype) @ values
    angles = -2 * math.pi / (rows * columns) * torch.outer(torch.arange(rows, dtype=torch.float64), columns_here.double())
    twisted = turned * torch.polar(torch.ones_like(angles), angles).to(values.dtype)
    pairs = torch.view_as_real(twisted).contiguous()
    exchanged = transposed(pairs, axis, 0, theirs, 1, own) if axis.size > 1 else pairs
    return torch.view_as_complex(exchanged.contiguous()) @ _matrix(columns, values.dtype)


def _matrix(length: int, kind: torch.dtype) -> Tensor:
    """The transform of so many numbers as a matrix."""
    places = torch.arange(length, dtype=torch.float64)
    angles = -2 * math.pi / length * (torch.outer(places, places) % length)
    return torch.polar(torch.ones_like(angles), angles).to(kind)
