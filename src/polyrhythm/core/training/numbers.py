"""Converts a value of the user's to one number.

The worker and its data, collectives, metrics and evaluations convert their arguments here, or refuse them.
"""

from __future__ import annotations

import math
from operator import index
from typing import Any, SupportsFloat

import numpy as np
from torch import Tensor

from polyrhythm.core.settings import shown
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


def whole(message: str, value: object, wanted: str = "a whole number", least: int | None = None) -> int:
    """`value` as an int: one of Python's, numpy's or torch's, or a float without a fraction; `least` or more.

    Raises WorkloadError for all else: the sentence begins with `message` and ends with what is `wanted`.
    """
    given: Any = int(value) if isinstance(value, float) and value.is_integer() else value
    found = index(given) if is_whole(given) else None
    if found is None or (least is not None and found < least):
        raise WorkloadError(f"{message} {shown(value)}: give {wanted}{'' if least is None else f', {least} or more'}.")
    return found


def is_whole(value: Any) -> bool:
    """True if `value` is a whole number, Python's, numpy's or torch's, and no bool."""
    try:
        index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


def holds(caller: str, value: Any) -> bool:
    """The truth of `value`, which the method `caller` was given. Raises WorkloadError where it has no single truth value."""
    try:
        return bool(value)
    except (RuntimeError, TypeError, ValueError) as problem:
        raise WorkloadError(
            f"{caller} was given {shown(value)}, which is neither true nor false ({problem}): give one condition, such as "
            "(loss < 0.1).any()."
        ) from problem
