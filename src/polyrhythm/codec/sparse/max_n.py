"""Send the elements of each tensor whose magnitude is near its largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.kernels.kernels import bound_of_largest, not_below
from polyrhythm.codec.sparse.sparse import ChosenElements
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError

_INDEX = 4
"""Bytes of the index of an element."""


@dataclass(frozen=True, slots=True)
@checked
class MaxN(ChosenElements):
    """The elements of each tensor whose magnitude is within `percent` % of its largest, with int32 indices (DLion; HPDC 2021).

    MaxN(100) sends everything. Where a controller sets the bytes of a packet, the percentage is the largest at which the packet fits,
    but at least `least`. Elements that are not sent are lost: wrap it, ErrorFeedback(MaxN(10)).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True, takes=frozenset({ControlledSetting.NBYTES}))

    percent: float = 10.0
    least: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.percent <= 100:
            raise CompositionError(
                f"MaxN(percent={self.percent}, least={self.least}) cannot be: give percentages of the largest magnitude, above 0 and up to "
                "100, the least not above the other."
            )

    def choose(self, value: Tensor, layout: Layout, context: ExchangeContext) -> Tensor:
        relative = _relative(value, layout)
        nbytes = context.controls.value(ControlledSetting.NBYTES, 0.0, context.receiver)
        bound = 1 - self.percent / 100 if nbytes <= 0 else self._bound(relative, int(nbytes / (_INDEX + value.element_size())))
        return not_below(relative, bound)

    def _bound(self, relative: Tensor, entries: int) -> float:
        """The magnitude, relative to the largest, at or above which there are at most so many `entries`."""
        least = 1 - self.least / 100
        if entries >= relative.numel():
            return 0.0
        above = bound_of_largest(relative, entries + 1)
        return min(least, torch.nextafter(relative.new_tensor(above), relative.new_tensor(2.0)).item())


def _relative(value: Tensor, layout: Layout) -> Tensor:
    """Magnitudes over the largest of their tensor (numel,); all 1 in a tensor in which one is not finite."""
    parts = []
    for part in layout.views(value.abs()):
        largest = part.max() if part.numel() else part.new_zeros(())
        whole = torch.ones_like(part) if not largest < torch.inf else torch.zeros_like(part)
        parts.append((part / largest if 0 < largest < torch.inf else whole).flatten())
    return torch.cat(parts) if parts else value.abs()


EXAMPLES = (MaxN(50),)
