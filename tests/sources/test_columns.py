"""Columns as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from polyrhythm.core.columns.columns import collated, columns_of


@pytest.mark.parametrize(
    ("values", "dtype", "shape"),
    [
        (np.zeros(3), torch.float32, (3,)),
        (np.zeros(3, np.float32), torch.float32, (3,)),
        (np.zeros(3, np.float16), torch.float16, (3,)),
        (np.zeros(3, np.int8), torch.int64, (3,)),
        (np.zeros(3, np.int32), torch.int64, (3,)),
        (np.zeros(3, np.uint8), torch.uint8, (3,)),
        (np.zeros(3, np.uint32), torch.int64, (3,)),
        (np.zeros(3, bool), torch.bool, (3,)),
        (np.zeros((3, 2, 2)), torch.float32, (3, 2, 2)),
        ([1, 2], torch.int64, (2,)),
        ([1.5, 2], torch.float32, (2,)),
        ([[1, 2], [3, 4]], torch.int64, (2, 2)),
        ([np.zeros(2), np.ones(2)], torch.float32, (2, 2)),
        (np.array([np.zeros(2), np.ones(2), None], object)[:2], torch.float32, (2, 2)),
        (torch.zeros(2, dtype=torch.float64), torch.float32, (2,)),
    ],
)
def test_numbers_get_the_types_that_models_take(values: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    column = columns_of({"x": values})["x"]
    assert isinstance(column, torch.Tensor)
    assert (column.dtype, tuple(column.shape)) == (dtype, shape)


@pytest.mark.parametrize("values", [["a", "b"], [b"a", b""], [np.zeros(2), np.zeros(3)], [None, 1], []])
def test_other_values_stay_a_list(values: list[Any]) -> None:
    column = columns_of({"x": values})["x"]
    assert len(column) == len(values)
    assert isinstance(column, list) or not values


def test_stacked_samples_have_the_same_types() -> None:
    x, y, name = collated([(1.5, 2, "a"), (2.5, 3, "b")])
    assert (x.dtype, y.dtype, list(name)) == (torch.float32, torch.int64, ["a", "b"])
    assert collated([{"x": 0.5}, {"x": 1.5}])["x"].tolist() == [0.5, 1.5]
