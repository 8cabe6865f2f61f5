"""Locally connected layers divided in space.

As in Dean et al., 2012, "Large scale distributed deep networks" (DistBelief), and Coates et al., 2013, "Deep learning with COTS HPC",
every place of an image has filters of its own, so the rank that has the place has its weights alone. Only margins of inputs are sent, and
their gradients; nothing is added over ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.errors import CompositionError
from polyrhythm.partition.axis import near_equal
from polyrhythm.partition.convolution.image import Image
from polyrhythm.partition.convolution.margins import with_margins
from polyrhythm.partition.convolution.window import Line, Window
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place


class LocallyConnected2d(nn.Module):
    """A convolution whose weights are different at each place: (samples, channels, height, width) to (samples, filters, outputs, outputs).

    `size` is the height and the width of its inputs, which are padded with `padding` zeros at each side. Its weights have the shape (output
    height, output width, filters, channels, kernel, kernel), its bias the first three of these.
    """

    def __init__(self, channels: int, filters: int, size: tuple[int, int], kernel_size: int, *, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.channels, self.filters, self.size = channels, filters, size
        self.window = Window(kernel_size, stride, before=padding, after=padding)
        outputs = [self.window.outputs(length) for length in size]
        if min(outputs) < 1:
            raise CompositionError(f"Inputs of {size} have no place for a kernel of {kernel_size}: give a smaller kernel, or more padding.")
        self.weight = nn.Parameter(torch.empty(*outputs, filters, channels, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.empty(*outputs, filters))
        reach = (channels * kernel_size**2) ** -0.5
        nn.init.uniform_(self.weight, -reach, reach)
        nn.init.uniform_(self.bias, -reach, reach)

    def forward(self, value: Tensor) -> Tensor:
        return connected(F.pad(value, [self.window.before] * 4), self.weight, self.bias, self.window)


def connected(padded: Tensor, weight: Tensor, bias: Tensor, window: Window) -> Tensor:
    """The sums of what each place sees with the weights of that place."""
    height, width, _ = bias.shape
    patches = F.unfold(padded, window.kernel, stride=window.stride).view(len(padded), -1, height, width)
    return torch.einsum("nkhw,hwfk->nfhw", patches, weight.flatten(3)) + bias.permute(2, 0, 1)


@dataclass(frozen=True, slots=True)
class LocallyConnected:
    """Divide the places of a `LocallyConnected2d`, which is given images of the size `image`, and their weights with them."""

    ends: ClassVar = False
    by_samples: ClassVar = True

    image: Image

    def among(self, samples: tuple[str, ...], axes: tuple[str | None, str | None]) -> LocallyConnected:
        return LocallyConnected(self.image.over(axes))

    @property
    def along(self) -> tuple[str, ...]:
        return tuple(axis for axis in self.image.axes if axis)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, LocallyConnected2d):
            return f"LocallyConnected divides LocallyConnected2d, and this is {type(module).__name__}: use SpatialConv for convolutions."
        if module.size != (self.image.height, self.image.width):
            return f"The layer is for images of {module.size}, and the cut for {(self.image.height, self.image.width)}: give one size."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, LocallyConnected2d)
        lines = self.image.lines(place)
        weight, bias = Piece.all_of(module.weight.shape), Piece.all_of(module.bias.shape)
        for dim, line in enumerate(lines):
            counts = near_equal(module.window.outputs(line.length), line.axis.size, line.weights)
            weight, bias = (piece.part(dim, counts, line.axis.index) for piece in (weight, bias))
        return LocallyConnectedPart(
            place.parameter(module.weight, f"{name}.weight", weight, *self.along),
            place.parameter(module.bias, f"{name}.bias", bias, *self.along),
            lines,
            module.window,
        )


class LocallyConnectedPart(nn.Module):
    """Some places of a locally connected layer: a part of images (samples, channels, own height, own width) to its part of the outputs."""

    def __init__(self, weight: nn.Parameter, bias: nn.Parameter, lines: tuple[Line, Line], window: Window) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self._lines, self._window = lines, window

    def forward(self, value: Tensor) -> Tensor:
        seen = with_margins(value, self._lines, (self._window, self._window))
        height, width, filters = self.bias.shape
        if not prod(self.bias.shape):
            return seen.value.new_zeros(len(value), filters, height, width) + seen.value.sum() + self.weight.sum() + self.bias.sum()
        return seen.through(lambda padded: connected(padded, self.weight, self.bias, self._window), 0.0)
