"""Convolutions whose channels and filters are divided (Dryden et al., SC 2019, "Channel and filter parallelism").

Three members, named for what stays where it is: `StationaryX` multiplies its own channels of the input by all filters, and the products are
added up; `StationaryY` gathers the input and computes its own filters; `StationaryW` does both on a grid of ranks, each with one block of
the weights. Weights and their gradients are divided: data-parallel ranks add up 1/p of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from polyrhythm.partition.convolution.channels import Channels
from polyrhythm.partition.kinds import BATCH_NORMS, BatchNorm
from polyrhythm.partition.moves import gather_replicated, scatter_total
from polyrhythm.partition.piece import Piece
from polyrhythm.partition.place import Place


@dataclass(frozen=True, slots=True)
class StationaryX:
    """Divide an `nn.Conv2d` by its input channels over `axis`, as its inputs are; its outputs are divided by filters."""

    axis: str

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        return _refusal(module)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        return _local(module, name, place, self.axis, None)


@dataclass(frozen=True, slots=True)
class StationaryY:
    """Divide an `nn.Conv2d` by its filters over `axis`; its inputs are divided by channels."""

    axis: str

    @property
    def along(self) -> tuple[str, ...]:
        return (self.axis,)

    def refusal(self, module: nn.Module, place: Place) -> str:
        return _refusal(module)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        return _local(module, name, place, None, self.axis)


@dataclass(frozen=True, slots=True)
class StationaryW:
    """Divide an `nn.Conv2d` by its input channels over the axis `channels` and by its filters over `filters`.

    Its inputs are divided into blocks of channels over `channels`, and within these over `filters`; its outputs the other way around. So
    layers that follow each other name the two axes in turn.
    """

    channels: str
    filters: str

    @property
    def along(self) -> tuple[str, ...]:
        return (self.channels, self.filters)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if self.channels == self.filters:
            return f"Channels and filters are both divided over {self.channels!r}: name two axes, or use StationaryX or StationaryY."
        return _refusal(module)

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        return _local(module, name, place, self.channels, self.filters)


def stationary(axis: str, module: nn.Conv2d, inputs: int, outputs: int) -> StationaryX | StationaryY:
    """The one that sends less for images of so many `inputs` and `outputs` elements in each channel."""
    return StationaryX(axis) if module.out_channels * outputs < module.in_channels * inputs else StationaryY(axis)


def _refusal(module: nn.Module) -> str:
    if not isinstance(module, nn.Conv2d) or isinstance(module, nn.LazyConv2d):
        return (
            f"This divides channels and filters of nn.Conv2d, and this is {type(module).__name__}: name convolutions. One is divided by "
            "channels and filters or by height and width, not by both."
        )
    if module.groups != 1:
        return f"A convolution of groups={module.groups} has filters that do not see all channels: divide it by height and width."
    return ""


def _local(module: nn.Module, name: str, place: Place, channels: str | None, filters: str | None) -> nn.Module:
    assert isinstance(module, nn.Conv2d)
    inputs, outputs = Channels(module.in_channels, channels, filters), Channels(module.out_channels, filters, channels)
    axes = inputs.axes
    piece = Piece.all_of(module.weight.shape).on(0, outputs.block(place)).on(1, inputs.block(place))
    weight = place.parameter(module.weight, f"{name}.weight", piece, *axes)
    bias = None
    if module.bias is not None:
        bias = place.parameter(module.bias, f"{name}.bias", Piece.all_of(module.bias.shape).on(0, outputs.span(place)), *axes)
    return ChannelFilterConv(module, weight, bias, (inputs, outputs), place)


class ChannelFilterConv(nn.Module):
    """Images (samples, own channels, height, width) to (samples, own filters, height, width), with one block of the weights."""

    def __init__(
        self, whole: nn.Conv2d, weight: nn.Parameter, bias: nn.Parameter | None, ends: tuple[Channels, Channels], place: Place
    ) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias
        self.stride, self.padding, self.dilation, self.padding_mode = whole.stride, whole.padding, whole.dilation, whole.padding_mode
        self._around = whole._reversed_padding_repeated_twice
        inputs, outputs = ends
        self._gathered = inputs.axis(place, inputs.inner), inputs.parts(place)
        self._scattered = outputs.axis(place, outputs.inner), outputs.parts(place)

    def forward(self, value: Tensor) -> Tensor:
        (gathered, channels), (scattered, filters) = self._gathered, self._scattered
        if value.shape[1] != (own := channels[gathered.index]):
            raise ValueError(
                f"This rank has {own} channels at this layer, and was given {value.shape[1]}: give it its part, by from_whole."
            )
        block = gather_replicated(value, gathered, 1, channels)
        found = scatter_total(self._product(block), scattered, 1, filters)
        return found if self.bias is None else found + self.bias.view(-1, 1, 1)

    def _product(self, value: Tensor) -> Tensor:
        pad: Any = self.padding
        if self.padding_mode != "zeros":
            value, pad = F.pad(value, self._around, mode=self.padding_mode), 0
        if self.weight.numel():
            return F.conv2d(value, self.weight, None, self.stride, pad, self.dilation)
        image, window = value.new_empty(1, 1, *value.shape[2:]), value.new_empty(1, 1, *self.weight.shape[2:])
        size = F.conv2d(image, window, None, self.stride, pad, self.dilation).shape[2:]
        return value.new_zeros(len(value), len(self.weight), *size) + value.narrow(1, 0, 0).sum() + self.weight.sum()


@dataclass(frozen=True, slots=True)
class ChannelNorm:
    """Divide an `nn.BatchNorm2d` by the channels that its inputs have at each rank: after a convolution over these axes."""

    outer: str | None
    inner: str | None = None

    @property
    def along(self) -> tuple[str, ...]:
        return tuple(axis for axis in (self.outer, self.inner) if axis)

    def refusal(self, module: nn.Module, place: Place) -> str:
        if not isinstance(module, BATCH_NORMS) or isinstance(module, nn.modules.lazy.LazyModuleMixin):
            return f"ChannelNorm divides batch norms, and this is {type(module).__name__}: name batch norms."
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        assert isinstance(module, BATCH_NORMS)
        channels = Channels(module.num_features, self.outer, self.inner)
        start, end = channels.span(place)
        for own in ("weight", "bias"):
            if (whole := getattr(module, own)) is not None:
                piece = Piece.all_of(whole.shape).on(0, (start, end))
                setattr(module, own, place.parameter(whole, f"{name}.{own}", piece, *channels.axes))
        for own in ("running_mean", "running_var"):
            if (whole := getattr(module, own)) is not None:
                setattr(module, own, whole[start:end].clone())
        module.num_features = end - start
        return module if end > start else NoChannels(module)


class NoChannels(nn.Module):
    """A batch norm of a rank that has no channels, for which torch's has no result: what it is given has no elements."""

    def __init__(self, whole: BatchNorm) -> None:
        super().__init__()
        for name, parameter in whole.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in whole.named_buffers(recurse=False):
            self.register_buffer(name, buffer)

    def forward(self, value: Tensor) -> Tensor:
        return value


@dataclass(frozen=True, slots=True)
class WholeChannels:
    """Put channels together before any module, such as an `nn.Flatten`: all ranks do the same from there."""

    channels: Channels

    @property
    def along(self) -> tuple[str, ...]:
        return self.channels.axes

    def refusal(self, module: nn.Module, place: Place) -> str:
        return ""

    def local(self, module: nn.Module, name: str, place: Place) -> nn.Module:
        def join(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            value, *others = args
            return self.channels.join(value, place), *others

        kept = place.keep(module, name)
        kept.register_forward_pre_hook(join)
        return kept
