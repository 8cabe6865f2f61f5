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
_TRAINED = 0.8
"""Patches to train on are from the left of each photograph, up to this share of its width; those to test on are from the rest."""


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
    training = _drawn(count, side, seed, "training", 0.0, _TRAINED)
    test = _drawn(test_count, side, seed, "test", _TRAINED, 1.0)
    values, vectors = np.linalg.eigh(training.T @ training / len(training))
    values, vectors = values[-kept:], vectors[:, -kept:]
    whitening = (vectors / np.sqrt(values)) @ vectors.T
    return _alike(training @ whitening), _alike(test @ whitening)


def _alike(whitened: np.ndarray) -> Tensor:
    variances = np.square(whitened).mean(axis=1, keepdims=True)
    return torch.from_numpy(_CONTRAST * whitened / np.sqrt(variances + _FLOOR)).float()


def _drawn(count: int, side: int, seed: int, name: str, left: float, right: float) -> np.ndarray:
    draw = rng.stream(seed, "photographs", name)
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
