"""A narrow place in the model at a cut, which is trained with it ("ResBM", arXiv:2604.11947)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Two modules around a cut, between which each vector has `width` features: the last step before the cut and the first one after it.

    They are part of the model, which computes the same in one process. Their bytes are those of the narrow vectors.
    """

    width: int

    def modules(self, features: int) -> tuple[nn.Module, nn.Module]:
        """The encoder and the decoder of vectors with so many features."""
        return BottleneckEncoder(features, self.width), BottleneckDecoder(self.width, features)


class BottleneckEncoder(nn.Module):
    """(…, features) to (…, width): the first `width` features, which are the low-rank identity, and what is learnt of all."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.narrow = nn.Linear(features, width)

    def forward(self, value: Tensor) -> Tensor:
        narrow: Tensor = value[..., : self.width] + self.narrow(value)
        return narrow


class BottleneckDecoder(nn.Module):
    """(…, width) to (…, features): the given features in the first places, and what is learnt for all."""

    def __init__(self, width: int, features: int) -> None:
        super().__init__()
        self.added = features - width
        self.widen = nn.Linear(width, features)

    def forward(self, value: Tensor) -> Tensor:
        wide: Tensor = torch.nn.functional.pad(value, (0, self.added)) + self.widen(value)
        return wide
