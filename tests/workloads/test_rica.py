"""Reconstruction ICA: the gradient against autograd, pooling against loops, and patches of photographs."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
import torch

import polyrhythm as pr
from polyrhythm.errors import CompositionError
from polyrhythm.workloads import RicaPatches
from polyrhythm.workloads.rica.fields import EPSILON, FieldSizes, LocalFields, gradient, objective
from polyrhythm.workloads.rica.photographs import patches, photographs
from polyrhythm_reproductions.jobs.gabor import r_squared

STEPS = pr.Simulator(devices=pr.hardware.Profile("a step of 1 ms", (1e-3,)))
SIZES = [FieldSizes(8, 4, 2, 2, 2), FieldSizes(9, 3, 3, 1, 3), FieldSizes(6, 6, 1, 4, 1), FieldSizes(10, 4, 1, 2, 5)]


def fields(sizes: FieldSizes) -> LocalFields:
    torch.manual_seed(0)
    return LocalFields(sizes).double()


def images(sizes: FieldSizes) -> torch.Tensor:
    return torch.randn(5, sizes.side**2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_gradient_by_hand_is_that_of_autograd(sizes: FieldSizes) -> None:
    made, seen = fields(sizes), images(sizes)
    objective(made, seen, 0.3).backward()  # type: ignore[no-untyped-call]
    assert made.weight.grad is not None
    assert torch.allclose(gradient(made, seen, 0.3) / len(seen), made.weight.grad, atol=1e-10)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_pool_is_the_root_of_the_sum_over_neighbouring_places(sizes: FieldSizes) -> None:
    made, seen = fields(sizes), images(sizes)
    codes = made.codes(seen).view(sizes.places, sizes.places, len(seen), sizes.maps)
    found = made.pools(made.codes(seen))
    for row, column in itertools.product(range(sizes.places - sizes.pool + 1), repeat=2):
        pool = codes[row : row + sizes.pool, column : column + sizes.pool].square().sum(dim=(0, 1))
        assert torch.allclose(found[:, :, row, column], (EPSILON + pool).sqrt())


def test_writing_is_the_transpose_of_reading() -> None:
    made, seen = fields(SIZES[0]), images(SIZES[0])
    pieces = torch.randn(made.pieces(seen).shape, dtype=torch.float64)
    assert torch.allclose((made.pieces(seen) * pieces).sum(), (seen * made.whole(pieces)).sum())
    pools = torch.randn(made.pools(made.codes(seen)).shape, dtype=torch.float64)
    spread = made.spread(pools)
    squares = torch.rand(spread.shape, dtype=torch.float64)
    pooled = made.pools(squares.sqrt()).square() - EPSILON
    assert torch.allclose((pooled * pools).sum(), (squares * spread).sum())


def test_patches_are_white_and_those_to_test_on_are_from_elsewhere() -> None:
    assert [each.shape for each in photographs()] == [(427, 640), (427, 640)]
    training, test = patches(2000, 100, 16, 80, 0)
    assert training.shape == (2000, 256)
    assert test.shape == (100, 256)
    values = np.linalg.eigvalsh((training.T @ training / len(training)).double().numpy())
    assert values[:176].max() < 1e-6
    assert values[176:].max() < 10 * values[176:].min()  # white before contrasts were made alike
    assert not torch.equal(training, patches(2000, 100, 16, 80, 1)[0])


def test_without_pillow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    photographs.cache_clear()
    with pytest.raises(CompositionError, match=r"polyrhythm\[photographs\]"):
        photographs()


def test_training_lowers_the_objective() -> None:
    job = RicaPatches(patches=960, epochs=1, batch_size=32)
    begun = pr.run(RicaPatches(patches=960, epochs=1, batch_size=32, learning_rate=1e-9), strategy="single", workers=1, on=STEPS, seed=0)
    assert pr.run(job, workers=1, strategy="single", on=STEPS, seed=0).final["loss"] < 0.95 * begun.final["loss"]


def test_a_gabor_function_fits_itself_and_noise_does_not() -> None:
    rows, columns = np.mgrid[:8, :8].astype(float)
    turned = (columns - 3) * np.cos(0.7) + (rows - 4) * np.sin(0.7)
    edge = np.exp(-((rows - 4) ** 2 + (columns - 3) ** 2) / 8) * np.cos(1.4 * turned + 0.3)
    assert r_squared(edge.ravel()) > 0.98
    draw = np.random.default_rng(0)
    assert max(r_squared(draw.standard_normal(64)) for _ in range(5)) < 0.6
    assert r_squared(np.zeros(64)) == 0.0
