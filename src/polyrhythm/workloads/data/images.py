"""Functions that the readers of image files share: scaling of bytes, and a check of the classes."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.errors import DataError


def as_images(pixels: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes as `dtype`: scaled to [0, 1] where it is floating, as they are where it is torch.uint8."""
    if dtype == torch.uint8:
        return pixels
    if not dtype.is_floating_point:
        raise DataError(f"Images cannot be given as {dtype}: give a floating type, which is scaled to [0, 1], or for torch.uint8.")
    return pixels.to(dtype).div_(255)


def check_classes(classes: Tensor, count: int, source: str) -> None:
    """Raise DataError for classes outside 0 to `count` - 1, which would otherwise fail deep inside a loss."""
    if len(classes) == 0:
        raise DataError(f"{source} holds no images.")
    low, high = int(classes.min()), int(classes.max())
    if low < 0 or high >= count:
        raise DataError(
            f"{source} has classes from {low} to {high}, but they must be from 0 to {count - 1}: it is another data set, or damaged."
        )
