"""The loops in C give the bits of those in numpy and torch."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from polyrhythm.codec.kernels import kernels, native, portable

from .aggregation import normal, same_bits

FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.1, -0.1, 1e-40, -1e-40, torch.inf, -torch.inf, torch.nan)
seeds = st.integers(0, 2**20)
brief = settings(max_examples=40, deadline=None)


def mixed(seed: int, numel: int, dtype: torch.dtype) -> Tensor:
    """Normal numbers, among them zeros of both signs, quanta, tiny and infinite ones and what is not a number."""
    value = normal(seed, numel, dtype)
    draw = np.random.default_rng(seed)
    for place in draw.integers(0, max(1, numel), numel // 8):
        value[place] = SPECIAL[draw.integers(len(SPECIAL) if seed % 2 else 10)]
    return value


def test_the_loops_in_use_are_those_in_c_and_there_are_as_many() -> None:
    assert kernels.pack_signs is native.pack_signs
    assert set(kernels.__all__) == set(native.__all__)
    assert all(hasattr(portable, name) for name in kernels.__all__)


@FLOATS
@brief
@given(lengths=st.lists(st.one_of(st.integers(1, 40), st.integers(1, 600)), min_size=1, max_size=6), seed=seeds)
def test_sums_and_choices_of_columns(dtype: torch.dtype, lengths: list[int], seed: int) -> None:
    value, columns = mixed(seed, sum(lengths), dtype), np.array(lengths, dtype=np.int64)
    for mine, other in zip(native.column_sums(value, columns), portable.column_sums(value, columns), strict=True):
        numbers = ~mine.isnan()
        assert torch.equal(numbers, ~other.isnan())
        assert same_bits(mine[numbers], other[numbers])
    bits, means = portable.bits_not_below(value, 0.0), normal(seed, 2 * len(lengths), dtype)
    assert same_bits(native.choose(bits, columns, means), portable.choose(bits, columns, means))


@FLOATS
@brief
@given(numel=st.integers(0, 300), seed=seeds, bound=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_bits_signs_and_indices(dtype: torch.dtype, numel: int, seed: int, bound: float) -> None:
    value = mixed(seed, numel, dtype)
    for name in ("bits_not_below", "bits_above", "above", "not_below"):
        assert same_bits(getattr(native, name)(value, bound), getattr(portable, name)(value, bound)), name
    packed = native.pack_signs(value, bound or 0.3)
    assert same_bits(packed, portable.pack_signs(value, bound or 0.3))
    size = value.new_tensor([0.3])
    assert same_bits(native.unpack_signs(packed, size, numel), portable.unpack_signs(packed, size, numel))


@FLOATS
@brief
@given(numel=st.integers(1, 300), seed=seeds, data=st.data())
def test_the_bound_of_the_largest(dtype: torch.dtype, numel: int, seed: int, data: st.DataObject) -> None:
    value, count = mixed(seed, numel, dtype), data.draw(st.integers(1, numel))
    mine, other = native.bound_of_largest(value, count), portable.bound_of_largest(value, count)
    assert mine == other or (np.isnan(mine) and np.isnan(other))


@pytest.mark.parametrize("small", [torch.float16, torch.bfloat16], ids=str)
@FLOATS
def test_rounding_chunk_by_chunk_is_rounding(dtype: torch.dtype, small: torch.dtype) -> None:
    for numel in (0, 1, 2**17 + 5, 2**20 + 5):
        value = normal(0, numel, dtype)
        if numel:
            value[:: 2**10] = mixed(1, 2**10 + 1, dtype)[: len(value[:: 2**10])]
            value[value.isnan()] = 0.0
        rounded, again = kernels.rounded(value, small)
        assert torch.equal(rounded, value.to(small))
        assert torch.equal(again, value.to(small).to(dtype))


def test_without_the_extension_codecs_work() -> None:
    script = (
        "import sys; sys.modules['polyrhythm.codec.kernels._kernels'] = None\n"
        "from polyrhythm.codec.kernels import kernels, portable\n"
        "assert kernels.above is portable.above"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
