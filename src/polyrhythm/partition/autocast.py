"""Mixed precision by `torch.autocast` in modules that multiply in an autograd function of their own, which autocast does not see into."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor


def autocast_dtype(value: Tensor) -> torch.dtype | None:
    """The type in which autocast multiplies on the device of `value`; None where it is not on."""
    device = value.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return None
    return torch.get_autocast_dtype(device)


def autocast_product(value: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The two as autocast multiplies them."""
    dtype = autocast_dtype(value)
    return (value, weight) if dtype is None else (value.to(dtype), weight.to(dtype))


def without_autocast(value: Tensor) -> AbstractContextManager[object]:
    """A context in which operations on the device of `value` have the types of what they are given."""
    return torch.autocast("cpu" if value.is_meta else value.device.type, enabled=False)
