"""Grey patches of the two photographs that scikit-learn carries, whitened.

They are china.jpg and flower.jpg (creative commons, attribution; see images/README.txt of scikit-learn), so nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.extras import needed
from polyrhythm.errors import WorkloadError

_NAMES = ("china.jpg", "flower.jpg")
_CONTRAST, _FLOOR = 0.3, 0.1
TRAINED, HELD_OUT = (0.0, 0.8), (0.8, 1.0)
"""The shares of the width of each photograph from which patches are to train on, and to test on."""


@cache
def photographs() -> list[np.ndarray]:
    """The photographs in grey (427, 640), with values from 0 to 1.

    Raises CompositionError without Pillow, WorkloadError without scikit-learn.
    """
    image = needed("PIL.Image", "photographs")
    found = importlib.util.find_spec("sklearn")
    if found is None or not found.submodule_search_locations:
        raise WorkloadError(
            "The photographs are part of scikit-learn, which is not installed: run pip install scikit-learn, or choose another workload."
        )
    folder = Path(found.submodule_search_locations[0]) / "datasets" / "images"
    return [np.asarray(image.open(folder / name).convert("L"), dtype=np.float64) / 255 for name in _NAMES]


@cache
def patches(count: int, test_count: int, side: int, kept: int, seed: int) -> tuple[Tensor, Tensor]:
    """Patches to train on (count, side²) and to test on (test_count, side²), whitened; float32. Do not write into them.

    Each patch loses its mean. Whitening is by the `kept` largest principal components of the patches to train on, turned back (ZCA). Then
    contrast is made about the same in all: pixels are divided by √(v + 0.1), with v their variance in the patch, and times 0.3.
    """
    training = cut(count, side, rng.stream(seed, "photographs", "training"), TRAINED)
    test = cut(test_count, side, rng.stream(seed, "photographs", "test"), HELD_OUT)
    whitening = whitening_of(training, kept)
    return alike(training @ whitening), alike(test @ whitening)


def whitening_of(images: np.ndarray, kept: int) -> np.ndarray:
    """The matrix that whitens such images (n, pixels) by their `kept` largest principal components (ZCA)."""
    values, vectors = np.linalg.eigh(images.T @ images / len(images))
    values, vectors = values[-kept:], vectors[:, -kept:]
    turned: np.ndarray = (vectors / np.sqrt(values)) @ vectors.T
    return turned


def alike(whitened: np.ndarray) -> Tensor:
    """Whitened images (n, pixels) with about the same contrast; float32."""
    variances = np.square(whitened).mean(axis=1, keepdims=True)
    return torch.from_numpy(_CONTRAST * whitened / np.sqrt(variances + _FLOOR)).float()


def cut(count: int, side: int, draw: np.random.Generator, columns: tuple[float, float]) -> np.ndarray:
    """Patches (count, side²) without their means, from these shares of the width of each photograph; first those of one photograph."""
    left, right = columns
    shares = [count // len(_NAMES) + (k < count % len(_NAMES)) for k in range(len(_NAMES))]
    found = []
    for photograph, share in zip(photographs(), shares, strict=True):
        height, width = photograph.shape
        tops = draw.integers(0, height - side + 1, share)
        lefts = draw.integers(int(left * width), int(right * width) - side + 1, share)
        found += [photograph[y : y + side, x : x + side].ravel() for y, x in zip(tops, lefts, strict=True)]
    every = np.stack(found)
    centred: np.ndarray = every - every.mean(axis=1, keepdims=True)
    return centred
