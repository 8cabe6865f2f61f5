"""Converts what the user gives as one number."""

from __future__ import annotations

import math
from typing import SupportsFloat

import numpy as np
from torch import Tensor

from polyrhythm.errors import WorkloadError


def number(message: str, value: object, wanted: str = "a float or a tensor of one element") -> float:
    """`value` as a float: a number of Python's or numpy's, or a tensor or an array of one element; it need not be finite.

    Raises WorkloadError for all else: the sentence begins with `message` and ends with what is `wanted`.
    """
    single = value
    if isinstance(value, (Tensor, np.ndarray)):
        single = value.item() if math.prod(value.shape) == 1 else None
    if isinstance(single, SupportsFloat):
        try:
            return float(single)
        except (TypeError, ValueError, OverflowError):  # what has a conversion may still refuse it, as 10**400 does
            pass
    raise WorkloadError(f"{message} {value!r}, which is not a single number: give {wanted}.")
