"""Arrays of NumPy as tensors of torch and back, in the same memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def dtypes(estimator: Any, fitted: bool) -> tuple[Any, ...]:
    """The types of features that are used as they are; others become the first. A `fitted` network takes the one it was trained with."""
    return (estimator.dtype_,) if fitted else (np.float64, np.float32)


def tensor_of(array: NDArray[Any]) -> Tensor:
    """`array` as a tensor in the same memory; copied only where torch has no such strides.

    An array that must not be written to is not written to here either: nothing that trains or predicts writes to its inputs.
    """
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = np.ascontiguousarray(array)
    if array.flags.writeable:
        return torch.from_numpy(array)
    with warnings.catch_warnings():  # torch cannot mark a tensor as not to be written to, and says so
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(array)


def outputs_of(module: nn.Module, features: NDArray[Any]) -> Tensor:
    """What a trained module makes of these features, in evaluation mode and without gradients."""
    module.eval()
    with torch.inference_mode():
        found: Tensor = module(tensor_of(features))
    return found
