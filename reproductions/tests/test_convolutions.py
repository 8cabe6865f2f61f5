"""Four ways to convolve, in double precision and of any shape."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from polyrhythm_reproductions.jobs.convolutions import by_columns, by_tiles, by_transform, directly


@pytest.mark.parametrize("shape", [(1, 1, 3, 3, 1, 3), (2, 3, 8, 6, 5, 3), (3, 2, 9, 12, 4, 1), (2, 4, 7, 11, 3, 5)])
def test_each_way_has_the_output_of_torch(shape: tuple[int, int, int, int, int, int]) -> None:
    n, channels, height, width, filters, kernel = shape
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(n, channels, height, width, dtype=torch.float64, generator=draw)
    weight = torch.randn(filters, channels, kernel, kernel, dtype=torch.float64, generator=draw)
    expected = F.conv2d(x, weight)
    ways = [directly, by_columns, by_transform, *([by_tiles] if kernel == 3 and not (height % 2 or width % 2) else [])]
    for way in ways:
        torch.testing.assert_close(way(x, weight).output, expected, rtol=1e-10, atol=1e-10)
    work = expected.numel() * channels * kernel**2
    assert directly(x, weight).multiplications == by_columns(x, weight).multiplications == work
    assert by_columns(x, weight).buffer == F.unfold(x, kernel).numel() == work // filters
