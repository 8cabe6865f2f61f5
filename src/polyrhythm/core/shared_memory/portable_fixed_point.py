"""Weights in few bits, with numpy: the same steps as `_fixed_point.c`, to be read next to it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MOST = 65536
"""More than any whole number here can change by."""


def subtract_stochastically(held: Tensor, update: Tensor, scale: float, seed: int, first: int) -> None:
    """Subtract `update` (n,) of float32 from `held` (n,), int8 or int16 in units of `scale`, which is a power of two.

    What is between two whole numbers becomes either, so that the expectation is exact; what is out of range becomes the largest. Element i
    takes the number `first + i` of the random stream `seed`, a whole number of 32 bits.
    """
    places = np.arange(first, first + held.numel(), dtype=np.uint64).astype(np.uint32)
    _move(held, update, scale, _drawn(seed, places))


def subtract_nearest(held: Tensor, update: Tensor, scale: float) -> None:
    """Subtract `update` (n,) of float32 from `held` (n,), int8 or int16 in units of `scale`, rounding to the nearest whole number.

    A change of less than half of `scale` is lost; what is out of range becomes the largest.
    """
    _move(held, update, scale, np.float32(0.5))


def read_into(held: Tensor, scale: float, into: Tensor) -> None:
    """Write the values (n,) of `held` to `into`, of float32."""
    torch.mul(held, scale, out=into)


def _move(held: Tensor, update: Tensor, scale: float, offsets: NDArray[np.float32] | np.float32) -> None:
    steps = np.clip(np.floor(-update.numpy() * np.float32(1 / scale) + offsets), -_MOST, _MOST).astype(np.int32)
    largest = np.iinfo(held.numpy().dtype).max
    held.copy_(torch.from_numpy(np.clip(held.numpy().astype(np.int32) + steps, -largest, largest)))


def _drawn(seed: int, places: NDArray[np.uint32]) -> NDArray[np.float32]:
    """In [0, 1): a hash of 32 bits (C. Wellons, "lowbias32"), of which a float holds 24."""
    x = places * np.uint32(0x9E3779B9) + np.uint32(seed)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return (x >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
