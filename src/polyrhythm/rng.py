"""Random streams that are named, so that adding one draw somewhere moves no draw elsewhere."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch


def derive(seed: int, *path: str | int) -> int:
    """A 63-bit seed for the stream `path` of a run seeded with `seed`."""
    text = "/".join([str(seed), *map(str, path)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *path: str | int) -> torch.Generator:
    """A torch generator for the stream `path`."""
    return torch.Generator().manual_seed(derive(seed, *path))


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """A numpy generator (PCG64) for the stream `path`."""
    return np.random.Generator(np.random.PCG64(derive(seed, *path)))


def seed_everything(seed: int, *path: str | int) -> None:
    """Seed the global generators of torch, numpy and `random` with the stream `path`, as a worker does before the user's code."""
    value = derive(seed, *path)
    torch.manual_seed(value)
    np.random.seed(value % 2**32)
    random.seed(value)
