"""Random numbers that belong to samples, so that a batch gets the same ones whichever worker has it."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from polyrhythm.core import rng

_KEPT = 32
"""Tables that are kept: virtual workers of one process ask for the same ones."""


@lru_cache(maxsize=_KEPT)
def uniform(seed: int, samples: int, columns: int, *path: str | int) -> Tensor:
    """Numbers from 0 to 1 (samples, columns), a row for each sample, of the stream `path`. Do not write into them."""
    return torch.rand(samples, columns, generator=rng.generator(seed, *path))


@lru_cache(maxsize=_KEPT)
def normal(seed: int, samples: int, columns: int, *path: str | int) -> Tensor:
    """Standard normal numbers (samples, columns), a row for each sample, of the stream `path`. Do not write into them."""
    return torch.randn(samples, columns, generator=rng.generator(seed, *path))
