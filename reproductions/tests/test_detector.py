"""Detectors, and the images with a planted object that they are tried on."""

from __future__ import annotations

import numpy as np
import torch

from polyrhythm.core import rng
from polyrhythm.workloads.rica.photographs import TRAINED
from polyrhythm_reproductions.jobs.detector import Detector, best_detector
from polyrhythm_reproductions.jobs.planted_object import PlantedRica, face, planted, scrambled


def test_the_best_detector_is_the_best_of_all_thresholds_tried_one_by_one() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        responses, have = draw.integers(0, 30, (40, 3)) / 7 + draw.random((40, 3)), draw.random(40) < 0.4
        tried = [
            Detector(unit, threshold, upward).accuracy(responses, have)
            for unit in range(3)
            for threshold in responses[:, unit]
            for upward in (True, False)
        ]
        assert np.isclose(best_detector(responses, have).accuracy(responses, have), max(tried))


def test_a_unit_that_tells_is_found_whichever_way_it_points() -> None:
    have = np.arange(20) % 2 == 0
    noise = np.random.default_rng(1).random((20, 2))
    for sign in (1, -1):
        found = best_detector(np.column_stack([noise, sign * have]), have)
        assert (found.unit, found.upward) == (2, sign == 1)
        assert found.accuracy(np.column_stack([noise, sign * have]), have) == 100.0
        assert found.accuracy(np.column_stack([noise, -sign * have]), have) == 50.0


def test_a_scrambled_object_is_as_strong_and_is_not_the_object() -> None:
    draw = np.random.default_rng(2)
    thing = face()
    found = [scrambled(thing, draw) for _ in range(50)]
    for each in found:
        assert np.allclose(np.abs(np.fft.fft2(each)), np.abs(np.fft.fft2(thing)))
    alike = [abs((each * thing).sum()) / (thing**2).sum() for each in found]
    assert max(alike) < 0.75
    assert np.median(alike) < 0.3


def test_half_of_the_labelled_patches_have_the_object_and_none_where_none_is_asked_for() -> None:
    images, have = planted(400, 0.5, rng.stream(0, "test"), TRAINED)
    assert images.shape == (400, 256)
    assert 160 < have.sum() < 240
    middle = images.reshape(-1, 16, 16)[:, 4:12, 4:12].reshape(400, -1)
    seen = np.abs(middle @ face().ravel())
    assert np.median(seen[have]) > 2 * np.median(seen[~have])
    assert not planted(50, 0.0, rng.stream(0, "test"), TRAINED).have.any()


def test_images_to_train_on_do_not_depend_on_labels_and_are_the_same_for_a_seed() -> None:
    job = PlantedRica(images=320, labelled=40)
    sets = job.sets(3)
    assert sets.training.shape == (320, 256)
    assert torch.equal(sets.training, PlantedRica(images=320, labelled=20).sets(3).training)
    assert not torch.equal(sets.training, job.sets(4).training)
