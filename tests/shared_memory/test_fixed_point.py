"""Weights in few bits: the loops in C give the bits of those in numpy, and rounding is what it says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from polyrhythm.core.shared_memory import fixed_point, native_fixed_point, portable_fixed_point

NARROW, WIDE = torch.int8, torch.int16
kinds = pytest.mark.parametrize("dtype", [NARROW, WIDE], ids=str)


def drawn(dtype: torch.dtype, n: int = 1003) -> tuple[Tensor, Tensor]:
    """Whole numbers of the whole range, and updates from tiny ones to such as leave it."""
    draw = torch.Generator().manual_seed(n)
    largest = torch.iinfo(dtype).max
    held = torch.randint(-largest, largest + 1, (n,), generator=draw).to(dtype)
    update = torch.randn(n, generator=draw) * 10.0 ** torch.randint(-6, 7, (n,), generator=draw)
    update[:4] = torch.tensor([0.0, -0.0, torch.inf, -torch.inf])
    return held, update


@kinds
@pytest.mark.parametrize("scale", [2.0**-12, 1.0, 4.0])
def test_the_loops_in_c_give_the_bits_of_those_in_numpy(dtype: torch.dtype, scale: float) -> None:
    assert fixed_point.read_into is native_fixed_point.read_into
    held, update = drawn(dtype)
    found = []
    for kernels in (native_fixed_point, portable_fixed_point):
        mine, near, values = held.clone(), held.clone(), torch.empty(len(held))
        kernels.subtract_stochastically(mine, update, scale, 2**32 - 5, 2**32 - 7)
        kernels.subtract_nearest(near, update, scale)
        kernels.read_into(mine, scale, values)
        found.append((mine, near, values))
    for native, portable in zip(*found, strict=True):
        assert torch.equal(native, portable)
    assert torch.equal(found[0][2], found[0][0] * scale)


@kinds
def test_stochastic_rounding_is_exact_on_average_and_between_the_two_neighbours(dtype: torch.dtype) -> None:
    update = torch.linspace(-2, 2, 41).repeat(4000)
    held = torch.full_like(update, 3, dtype=dtype)
    fixed_point.subtract_stochastically(held, update, 1.0, 7, 0)
    exact = 3 - update
    assert ((held >= exact.floor() - 1e-3) & (held <= exact.ceil() + 1e-3)).all()
    # the deviation of a mean of 4,000 is at most 0.5 / √4000
    assert (held.float().view(4000, 41).mean(dim=0) - exact[:41]).abs().max() < 4 * 0.5 / 4000**0.5


@kinds
def test_to_the_nearest_what_is_below_half_of_one_is_lost(dtype: torch.dtype) -> None:
    held = torch.zeros(6, dtype=dtype)
    fixed_point.subtract_nearest(held, torch.tensor([0.49, -0.49, 0.51, -0.51, 1.0, 0.0]), 1.0)
    assert held.tolist() == [0, 0, -1, 1, -1, 0]


@kinds
def test_what_leaves_the_range_becomes_its_end(dtype: torch.dtype) -> None:
    largest = torch.iinfo(dtype).max
    held = torch.zeros(2, dtype=dtype)
    fixed_point.subtract_stochastically(held, torch.tensor([1e9, -1e9]), 1.0, 0, 0)
    assert held.tolist() == [-largest, largest]
