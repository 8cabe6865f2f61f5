"""Words of a few bits each, packed without gaps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BYTE = 8


def pack(words: Tensor, width: int) -> Tensor:
    """The lowest `width` bits of each of `words` (n,), uint8, as ⌈n · width / 8⌉ bytes, the highest bit first."""
    array: NDArray[Any] = words.numpy()
    if _BYTE % width:  # words cross byte boundaries
        shifts = np.arange(width - 1, -1, -1, dtype=np.uint8)
        return torch.from_numpy(np.packbits((array[:, None] >> shifts) & 1))
    if width == 1:
        return torch.from_numpy(np.packbits(array))
    each = _BYTE // width
    rows = np.zeros((-(-len(array) // each), each), dtype=np.uint8)
    rows.reshape(-1)[: len(array)] = array
    packed = rows[:, 0] << (_BYTE - width)
    for k in range(1, each):
        packed |= rows[:, k] << (_BYTE - width * (k + 1))
    return torch.from_numpy(packed)


def unpack(packed: Tensor, width: int, count: int) -> Tensor:
    """The `count` words (count,), uint8, that `pack` was given."""
    array: NDArray[Any] = packed.numpy()
    if width == 1:
        return torch.from_numpy(np.unpackbits(array, count=count))
    if _BYTE % width:
        flags = np.unpackbits(array, count=count * width).reshape(count, width)
        return torch.from_numpy((flags * (1 << np.arange(width - 1, -1, -1, dtype=np.uint8))).sum(axis=1, dtype=np.uint8))
    return torch.from_numpy(_words(width).take(array, axis=0).reshape(-1)[:count])


@lru_cache(maxsize=_BYTE)
def _words(width: int) -> NDArray[np.uint8]:
    """The words (256, 8 / width) of every byte."""
    shifts = np.arange(_BYTE - width, -1, -width, dtype=np.uint8)
    return (np.arange(256, dtype=np.uint8)[:, None] >> shifts) & np.uint8((1 << width) - 1)
