"""Weights in few bits, in C: see `_fixed_point.c`."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.core.shared_memory._fixed_point import (
    read_into as read,  # in this form, what is missing can be distinguished from what is broken
)
from polyrhythm.core.shared_memory._fixed_point import subtract_nearest as to_nearest
from polyrhythm.core.shared_memory._fixed_point import subtract_stochastically as stochastically


def subtract_stochastically(held: Tensor, update: Tensor, scale: float, seed: int, first: int) -> None:
    """Subtract `update` from `held`, rounding stochastically; the arguments are those of `portable_fixed_point`."""
    place = held.data_ptr(), held.dtype == torch.int16
    stochastically(*place, update.data_ptr(), held.numel(), 1 / scale, seed, first)


def subtract_nearest(held: Tensor, update: Tensor, scale: float) -> None:
    """Subtract `update` from `held`, rounding to the nearest; the arguments are those of `portable_fixed_point`."""
    to_nearest(held.data_ptr(), held.dtype == torch.int16, update.data_ptr(), held.numel(), 1 / scale)


def read_into(held: Tensor, scale: float, into: Tensor) -> None:
    """Write the values (n,) of `held` to `into`, of float32."""
    read(held.data_ptr(), held.dtype == torch.int16, held.numel(), scale, into.data_ptr())
