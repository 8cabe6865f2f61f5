"""Convolutions and poolings on parts of images (Dryden et al., IPDPS 2019, "Improving strong-scaling of CNN training").

A rank computes the outputs of its part of the image, and gets the rows and columns around its inputs that they need from those who have
them: first along the height, then, with what came, along the width, which brings the corners.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.axis import Axis
from polyrhythm.partition.convolution.image import Image
from polyrhythm.partition.convolution.margins import WithMargins, with_margins
from polyrhythm.partition.convolution.window import Line, Window
from polyrhythm.partition.equal_weights import replicated
from polyrhythm.partition.place import Place

Lines = tuple[Line, Line]
Windows = tuple[Window, Window]


@dataclass(frozen=True, slots=True)
class SpatialConv:
    """Divide the images of an `nn.Conv2d`, which it is given at the size `image`; all ranks have all weights.

    `samples` are the other axes over whose ranks the gradients of the weights are added up.
    """

    ends: ClassVar = False
    by_samples: ClassVar = True

    image: Image
    samples: tuple[str, ...] = ()

    def among(self, samples: tuple[str, ...], axes: tuple[str | None, str | None]) -> SpatialConv:
        return SpatialConv(self.image.over(axes), samples)

    @property
    def along(self) -> tuple[str, ...]:
        return (*self.samples, *self.image.along)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.Conv2d) or isinstance(module, nn.LazyConv2d):
            return f"SpatialConv divides nn.Conv2d, and this is {type(module).__name__}: name convolutions of images."
        if module.padding_mode != "zeros":
            return f"padding_mode={module.padding_mode!r} reads from the other end of the image: use zeros."
        return _too_small(self.image, _windows_of(module))

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, nn.Conv2d)
        axes = [*self.image.divided(place), *(place.axis(each) for each in self.samples)]
        return SpatialConvModule(place.keep(module, name), self.image.lines(place), axes)


class SpatialConvModule(nn.Module):
    """A convolution of a part of images (samples, channels, own height, own width) to its part of the outputs."""

    def __init__(self, whole: Any, lines: Lines, axes: list[Axis]) -> None:
        super().__init__()
        self.weight, self.bias = whole.weight, whole.bias
        self.stride, self.dilation, self.groups = whole.stride, whole.dilation, whole.groups
        self._lines, self._windows, self._axes = lines, _windows_of(whole), axes

    def forward(self, value: Tensor) -> Tensor:
        weights: dict[str, Any] = {"weight": self.weight, "bias": self.bias} | replicated(self, self._axes)
        weight: Tensor = weights["weight"]
        bias: Tensor | None = weights["bias"]
        seen = with_margins(value, self._lines, self._windows)
        if not seen.value.numel():
            unused = weight.sum() if bias is None else weight.sum() + bias.sum()
            return _none(seen.value, len(weight), self._lines, self._windows) + unused
        return seen.through(lambda padded: F.conv2d(padded, weight, bias, self.stride, 0, self.dilation, self.groups), 0.0)


@dataclass(frozen=True, slots=True)
class SpatialPool:
    """Divide the images of an `nn.MaxPool2d` or `nn.AvgPool2d`, which it is given at the size `image`."""

    ends: ClassVar = False
    by_samples: ClassVar = True

    image: Image

    def among(self, samples: tuple[str, ...], axes: tuple[str | None, str | None]) -> SpatialPool:
        return SpatialPool(self.image.over(axes))

    @property
    def along(self) -> tuple[str, ...]:
        return self.image.along

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
            return f"SpatialPool divides nn.MaxPool2d and nn.AvgPool2d, and this is {type(module).__name__}: name such a pooling."
        if module.ceil_mode or getattr(module, "return_indices", False):
            return "A pooling with ceil_mode or return_indices cannot be divided: leave these options out."
        return _too_small(self.image, _windows_of(module))

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        pool = _maximum if isinstance(module, nn.MaxPool2d) else _average
        return SpatialPoolModule(module, pool, self.image.lines(place))


class SpatialPoolModule(nn.Module):
    """A pooling of a part of images (samples, channels, own height, own width) to its part of the outputs."""

    def __init__(self, whole: Any, pool: Callable[[Any, WithMargins], Tensor], lines: Lines) -> None:
        super().__init__()
        self._whole, self._pool, self._lines, self._windows = (whole,), pool, lines, _windows_of(whole)

    def forward(self, value: Tensor) -> Tensor:
        seen = with_margins(value, self._lines, self._windows)
        if not seen.value.numel():
            return _none(seen.value, value.shape[1], self._lines, self._windows)
        return self._pool(self._whole[0], seen)


def _maximum(whole: Any, seen: WithMargins) -> Tensor:
    return seen.through(lambda padded: F.max_pool2d(padded, whole.kernel_size, whole.stride, 0, whole.dilation), -torch.inf)


def _average(whole: Any, seen: WithMargins) -> Tensor:
    kernel, stride, divisor = whole.kernel_size, whole.stride, whole.divisor_override
    pooled = seen.through(lambda padded: F.avg_pool2d(padded, kernel, stride, 0, divisor_override=divisor), 0.0)
    if whole.count_include_pad or divisor:
        return pooled
    inside = F.pad(seen.value.new_ones(1, 1, *seen.value.shape[-2:]), seen.pads)
    return pooled / F.avg_pool2d(inside, kernel, stride, 0)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _windows_of(module: Any) -> Windows:
    """The windows of a convolution or a pooling along height and width."""
    kernels, strides, dilations = (_pair(value) for value in (module.kernel_size, module.stride, getattr(module, "dilation", 1)))
    reach = [dilation * (kernel - 1) for kernel, dilation in zip(kernels, dilations, strict=True)]
    if module.padding == "same":
        pads = [(total // 2, total - total // 2) for total in reach]
    else:
        pads = [(pad, pad) for pad in _pair(0 if module.padding == "valid" else module.padding)]
    height, width = (Window(kernels[k], strides[k], dilations[k], *pads[k]) for k in range(2))
    return height, width


def _none(seen: Tensor, channels: int, lines: Lines, windows: Windows) -> Tensor:
    """No outputs, of a rank that takes part in the exchanges of the others all the same."""
    own = [line.outputs(window) for line, window in zip(lines, windows, strict=True)]
    return seen.new_zeros(seen.shape[0], channels, *own) + seen.sum()


def _too_small(image: Image, windows: Windows) -> str:
    for length, window in zip((image.height, image.width), windows, strict=True):
        if window.outputs(length) < 1:
            size = f"{image.height} x {image.width}"
            return f"An image of {size} has no outputs for a window that reaches over {window.reach}: give larger images."
    return ""
