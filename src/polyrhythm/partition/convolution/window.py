"""The window of a convolution or a pooling along one dimension: which inputs a stretch of outputs needs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from polyrhythm.partition.axis import Axis, near_equal
from polyrhythm.partition.piece import Span
from polyrhythm.partition.windows import windows


@dataclass(frozen=True, slots=True)
class Window:
    """A `kernel` that moves by `stride`, with `dilation` between its taps, over a line with that padding `before` and `after` it."""

    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def reach(self) -> int:
        """The inputs from the first tap to the last one."""
        return self.dilation * (self.kernel - 1) + 1

    def outputs(self, length: int) -> int:
        """The outputs for an input of that length."""
        return (length + self.before + self.after - self.reach) // self.stride + 1

    def inputs(self, outputs: Span) -> Span:
        """The inputs that these outputs need; places before 0 and from the length on are padding.

        Examples:
            >>> Window(3, before=1, after=1).inputs((0, 4)), Window(3, stride=2, before=1, after=1).inputs((2, 4))
            ((-1, 5), (3, 8))
        """
        start, end = outputs
        if start == end:
            return 0, 0
        first = start * self.stride - self.before
        return first, first + (end - start - 1) * self.stride + self.reach


@dataclass(frozen=True, slots=True)
class Margin:
    """What lies around the `own` part (its place and length in the rank's) of a value along `dim`: rows of others, and padding."""

    dim: int
    own: tuple[int, int]
    before: Tensor
    after: Tensor
    pads: tuple[int, int]

    @staticmethod
    def around(seen: Tensor, dim: int, own: tuple[int, int], start: int, pads: tuple[int, int]) -> Margin:
        """The margin of a value whose own part begins at `start`."""
        end = start + own[1]
        before, after = seen.detach().narrow(dim, 0, start), seen.detach().narrow(dim, end, seen.shape[dim] - end)
        return Margin(dim, own, before.clone(), after.clone(), pads)

    def put(self, value: Tensor) -> Tensor:
        """The value of this rank with the margin, without the padding."""
        return torch.cat([self.before, value.narrow(self.dim, *self.own), self.after], self.dim)


@dataclass(frozen=True, slots=True)
class Line:
    """One dimension of an image: `length` inputs, divided over `axis`, in the proportions of `weights` or near equally."""

    dim: int
    length: int
    axis: Axis
    weights: tuple[float, ...] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The inputs of each rank."""
        return near_equal(self.length, self.axis.size, self.weights)

    def seen(self, value: Tensor, window: Window) -> tuple[Tensor, Margin]:
        """What this rank's outputs need of the whole line, and what of it is not this rank's own."""
        counts = near_equal(window.outputs(self.length), self.axis.size, self.weights)
        ends = list(accumulate(counts))
        needed = [window.inputs((end - count, end)) for count, end in zip(counts, ends, strict=True)]
        inside = [self._clipped(span) for span in needed]
        (first, last), (start, end) = needed[self.axis.index], inside[self.axis.index]
        pad = min(max(-first, 0), last - first)
        found = windows(value, self.axis, self.dim, self.sizes, inside)
        own = sum(self.sizes[: self.axis.index])
        low, high = min(max(own, start), end), max(start, min(own + value.shape[self.dim], end))
        return found, Margin.around(
            found, self.dim, (low - own, max(high - low, 0)), low - start, (pad, last - first - pad - (end - start))
        )

    def _clipped(self, span: Span) -> Span:
        start = min(max(span[0], 0), self.length)
        return start, max(start, min(span[1], self.length))

    def outputs(self, window: Window) -> int:
        """The outputs of this rank."""
        return near_equal(window.outputs(self.length), self.axis.size, self.weights)[self.axis.index]
