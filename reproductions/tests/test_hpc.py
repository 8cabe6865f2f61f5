"""Mini-apps on ranks, with odd sizes, find what one process does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from polyrhythm.partition.axis import near_equal, starts
from polyrhythm.partition.place import Place
from polyrhythm_reproductions.hpc import conjugate_gradient, fourier_transform, laplacian_rows, tiled_product
from polyrhythm_reproductions.jobs.parts import at_every_rank


def part(place: Place, length: int) -> slice:
    axis = place.axis("ranks")
    sizes = near_equal(length, axis.size)
    return slice(starts(sizes)[axis.index], starts(sizes)[axis.index] + sizes[axis.index])


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_products_transforms_and_solutions_are_those_of_one_process(ranks: int) -> None:
    left, right = (torch.randn(7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in range(2))
    signal = torch.randn(6 * 9, dtype=torch.complex128, generator=torch.Generator().manual_seed(2))
    known = torch.ones(16, dtype=torch.float64)

    def program(place: Place) -> tuple[Tensor, Tensor, Tensor, float]:
        axis = place.axis("ranks")
        product = tiled_product(axis, left[part(place, 7)], right[part(place, 7)], near_equal(7, axis.size))
        transform = fourier_transform(axis, signal.view(6, 9)[:, part(place, 9)], 6, 9)
        matrix, sizes = laplacian_rows(4, axis.size, axis.index)
        solved = conjugate_gradient(axis, matrix, matrix @ known, sizes)
        return product, transform, solved.rows, solved.residual

    found = at_every_rank(program, {"ranks": ranks})
    torch.testing.assert_close(torch.cat([each[0] for each in found]), left @ right)
    torch.testing.assert_close(torch.cat([each[1] for each in found]).T.reshape(-1), torch.fft.fft(signal))
    torch.testing.assert_close(torch.cat([each[2] for each in found]), known)
    assert max(each[3] for each in found) <= 1e-8
