"""Patches of photographs with an object planted in them, or a pattern of the same power in its place; and RICA on them without labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.job_files.worker import WorkloadWorker
from polyrhythm.workloads import RicaPatches
from polyrhythm.workloads.rica.photographs import HELD_OUT, TRAINED, alike, cut, whitening_of
from polyrhythm.workloads.rica_patches import SIDE, learn
from polyrhythm.workloads.workload import Metric, Sizes

OBJECT_SIDE = 8
_KEPT = 120
_STRENGTH, _SHIFT = 2.0, 1
"""The contrast of an object, in deviations of the patch behind it, and by how many pixels it lies off the middle, at most."""


class LabelledImages(NamedTuple):
    """Images (n, pixels), and which of them have the object (n,)."""

    images: np.ndarray
    have: np.ndarray


@cache
def face() -> np.ndarray:
    """The object (8, 8): a ring with two eyes and a mouth; its mean is 0, its largest element 1."""
    y, x = np.mgrid[:OBJECT_SIDE, :OBJECT_SIDE] - (OBJECT_SIDE - 1) / 2
    drawn = np.exp(-((np.hypot(y, x) - 3.2) ** 2) / 0.5)
    for place in (-1.3, 1.3):
        drawn -= 1.2 * np.exp(-((y + 1) ** 2 + (x - place) ** 2) / 0.5)
    drawn -= np.exp(-((y - 1.6) ** 2 / 0.4 + x**2 / 2))
    drawn -= drawn.mean()
    found: np.ndarray = drawn / np.abs(drawn).max()
    return found


def scrambled(thing: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """A pattern with the power spectrum of `thing`, and phases that are drawn: what is not the object, and as strong."""
    phases = np.fft.fft2(draw.standard_normal(thing.shape))
    found: np.ndarray = np.fft.ifft2(np.abs(np.fft.fft2(thing)) * phases / np.abs(phases)).real
    return found


def planted(count: int, share: float, draw: np.random.Generator, columns: tuple[float, float]) -> LabelledImages:
    """Patches of 16 x 16 pixels; that share of them has the object, of either sign, and every other one its scrambled likeness."""
    behind = cut(count, SIDE, draw, columns)
    draw.shuffle(behind)
    images = (behind / np.sqrt(np.square(behind).mean(axis=1, keepdims=True) + 1e-3)).reshape(-1, SIDE, SIDE)
    have = draw.random(count) < share
    for image, has in zip(images, have, strict=True):
        top, left = (SIDE - OBJECT_SIDE) // 2 + draw.integers(-_SHIFT, _SHIFT + 1, 2)
        thing = face() if has else scrambled(face(), draw)
        image[top : top + OBJECT_SIDE, left : left + OBJECT_SIDE] += draw.choice([-_STRENGTH, _STRENGTH]) * thing
    flat = images.reshape(count, -1)
    return LabelledImages(flat - flat.mean(axis=1, keepdims=True), have)


class PlantedSets(NamedTuple):
    """Whitened images to train on, without labels; then labelled ones, as they are and whitened, to choose by and to test on."""

    training: Tensor
    chosen_by: LabelledImages
    tested_on: LabelledImages
    whitened: tuple[Tensor, Tensor]


@cache
def planted_sets(count: int, share: float, labelled: int, seed: int) -> PlantedSets:
    """`share` is of the images to train on; of the labelled ones half have the object. Those to test on are of other photographs' parts."""
    training = planted(count, share, rng.stream(seed, "planted", "training"), TRAINED).images
    chosen_by = planted(labelled, 0.5, rng.stream(seed, "planted", "labelled"), TRAINED)
    tested_on = planted(labelled, 0.5, rng.stream(seed, "planted", "test"), HELD_OUT)
    whitening = whitening_of(training, _KEPT)
    whitened = alike(chosen_by.images @ whitening), alike(tested_on.images @ whitening)
    return PlantedSets(alike(training @ whitening), chosen_by, tested_on, whitened)


@dataclass(frozen=True, slots=True)
class PlantedRica:
    """RICA on images of which `share` have the object; nothing says which. `labelled` images are there to choose by, as many to test on."""

    share: float = 0.5
    images: int = 8000
    labelled: int = 2000
    epochs: int = 16
    batch_size: int = 16
    learning_rate: float = 0.02

    name: ClassVar[str] = "planted-rica"
    description: ClassVar[str] = "RICA on photographs' patches with an object in some of them"
    metric: ClassVar[Metric] = RicaPatches.metric

    @property
    def sizes(self) -> Sizes:
        """Images are drawn from the run's seed."""
        return Sizes(self.images, self.labelled, self.batch_size, "patches of bundled photographs, with an object planted")

    @property
    def settings(self) -> RicaPatches:
        """Those of the workload."""
        return RicaPatches(epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate)

    def sets(self, seed: int) -> PlantedSets:
        """The images of a seed."""
        return planted_sets(self.images, self.share, self.labelled, seed)

    def __call__(self, worker: WorkloadWorker) -> None:
        """Train once, as one of the workers."""
        sets = self.sets(worker.seed)
        learn(worker, self.settings, sets.training, sets.whitened[1])
