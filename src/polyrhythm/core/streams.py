"""Random streams of numpy by name, so that a new draw in one place changes no draw in another. `rng` adds those of torch."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *path: str | int) -> int:
    """A 63-bit seed for the stream `path` of a run seeded with `seed`."""
    text = "/".join([str(seed), *map(str, path)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """A numpy generator (PCG64) for the stream `path`."""
    return np.random.Generator(np.random.PCG64(derive(seed, *path)))
