"""Several values in one byte: the first in its highest bits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_WORD = 16
"""Codes of two bits in 32 bits."""
_SIGNS = np.array([[(0, 0, -1, 1)[byte >> shift & 3] for shift in (6, 4, 2, 0)] for byte in range(256)], dtype=np.int8)
"""What the four codes of a byte stand for."""


def pack_signs(value: Tensor, least: float) -> Tensor:
    """Two bits for each element of `value` (numel,): 11 if it is `least` or more, 10 if -`least` or less, else 00.

    Bytes (4 ⌈numel / 16⌉,), uint8, filled up with 00. What is not a number is 00.
    """
    array = value.numpy()
    bits = np.zeros((-(-value.numel() // _WORD) * _WORD, 2), dtype=np.bool_)
    bits[: value.numel(), 1] = array >= least
    bits[: value.numel(), 0] = (array <= -least) | bits[: value.numel(), 1]
    return torch.from_numpy(np.packbits(bits))


def unpack_signs(packed: Tensor, size: Tensor, numel: int) -> Tensor:
    """`size` (1,), 0 or -`size` for each of the first `numel` codes of `pack_signs`, in the type of `size`."""
    values = torch.from_numpy(_SIGNS).to(size.dtype) * size
    return values.index_select(0, packed.int()).view(-1)[:numel].contiguous()
