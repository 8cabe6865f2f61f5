"""What a rank's outputs of a convolution or a pooling need: its part of the images with a margin, which is not kept twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from polyrhythm.core.torch_private.one_process import version
from polyrhythm.partition.convolution.image import check_part
from polyrhythm.partition.convolution.window import Line, Margin, Window


@dataclass(frozen=True, slots=True)
class WithMargins:
    """This rank's part of the images with its `margins` is `value`; `pads` are those of `torch.nn.functional.pad`."""

    own: Tensor
    margins: tuple[Margin, ...]
    value: Tensor

    @property
    def pads(self) -> list[int]:
        """The padding around the value."""
        return [pad for margin in reversed(self.margins) for pad in margin.pads]

    def through(self, operation: Callable[[Tensor], Tensor], fill: float) -> Tensor:
        """What the operation makes of the value, padded with `fill`.

        For the backward pass the margins are kept, and what lies between them is the value that the layer before has made, which that
        layer often keeps too.
        """
        pads = self.pads
        padded = F.pad(self.value, pads, value=fill) if any(pads) else self.value
        if padded is self.own:
            return operation(padded)
        storage, own, margins = hash(padded.untyped_storage()), self.own.detach(), self.margins
        noted = version(own)

        def again() -> Tensor:
            if version(own) != noted:
                raise RuntimeError(
                    "The images that a divided layer was given were changed in place afterwards: leave out inplace=True there."
                )
            value = own
            for margin in margins:
                value = margin.put(value)
            return F.pad(value, pads, value=fill)

        def pack(value: Tensor) -> Any:
            return again if hash(value.untyped_storage()) == storage else value

        def unpack(kept: Any) -> Any:
            return again() if kept is again else kept

        with saved_tensors_hooks(pack, unpack):
            return operation(padded)


def with_margins(value: Tensor, lines: Sequence[Line], windows: Sequence[Window]) -> WithMargins:
    """Get the margins from the other ranks. Raises ValueError for a part of another size."""
    check_part(value, lines)
    found, margins = value, []
    for line, window in zip(lines, windows, strict=True):
        found, margin = line.seen(found, window)
        margins.append(margin)
    return WithMargins(value, tuple(margins), found)
