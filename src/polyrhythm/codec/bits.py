"""Words of a few bits each, packed without gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def pack(words: Tensor, width: int) -> Tensor:
    """The lowest `width` bits of each of `words` (n,), uint8, as ⌈n · width / 8⌉ bytes, the highest bit first."""
    shifts = np.arange(width - 1, -1, -1, dtype=np.uint8)
    flags: NDArray[Any] = (words.numpy()[:, None] >> shifts) & 1
    return torch.from_numpy(np.packbits(flags))


def unpack(packed: Tensor, width: int, count: int) -> Tensor:
    """The `count` words (count,), uint8, that `pack` was given."""
    flags = np.unpackbits(packed.numpy(), count=count * width).reshape(count, width)
    places = 1 << np.arange(width - 1, -1, -1, dtype=np.uint8)
    return torch.from_numpy((flags * places).sum(axis=1, dtype=np.uint8))
