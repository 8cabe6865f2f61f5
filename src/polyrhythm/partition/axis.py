"""One axis of a mesh as one rank sees it: the collective operations among the ranks that differ in this coordinate only.

Modules of a partition communicate by an `Axis` and by nothing else. Three members: `GroupAxis` over torch.distributed, `AxisOfOne`, and
`CountedAxis`, which moves nothing and says what would be moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.errors import CompositionError

NARROW = (torch.bfloat16, torch.float16)
"""Types in which sums are not made."""
Sizes = Sequence[int]
"""The length along the divided dimension at each coordinate; they may be different, and 0."""


class Pending(Protocol):
    """A tensor on its way."""

    def wait(self) -> Tensor:
        """The tensor that was received, or that was sent and may be written to again."""


class Arrived:
    """A `Pending` that needs no waiting."""

    def __init__(self, value: Tensor) -> None:
        self._value = value

    def wait(self) -> Tensor:
        return self._value


class Axis(Protocol):
    """The ranks along the axis `name`: this one has the coordinate `index` of `size`.

    Operations are called by all of them in the same order. They return new tensors and leave their arguments as they are; none of them is
    known to autograd (`moves` has those that are). Sums of 16-bit floating-point numbers are made in float32. `calls` counts operations
    by name, and `nbytes` what this rank sends in them, by the fewest bytes that the operation needs.
    """

    @property
    def name(self) -> str:
        """Its name on the mesh."""

    @property
    def size(self) -> int:
        """The number of coordinates."""

    @property
    def index(self) -> int:
        """This rank's coordinate."""

    @property
    def calls(self) -> Counter[str]:
        """How often each operation was called."""

    @property
    def nbytes(self) -> Counter[str]:
        """The bytes that this rank sent in each operation."""

    def all_reduce(self, value: Tensor) -> Tensor:
        """The sum of all `value`s."""

    def maximum(self, value: Tensor) -> Tensor:
        """The largest of all `value`s, element by element."""

    def all_gather(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        """All `value`s end to end along `dim`."""

    def reduce_scatter(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        """This rank's part along `dim` of the sum of all `value`s."""

    def gather_into(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        """Write what every rank k has as `own` into `places[k]`, which are together as long; all of them contiguous and of one type."""

    def reduce_scatter_into(self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], divisor: float) -> None:
        """Write the sum of what all have as `parts` of this rank, divided by `divisor`, into `into`, which has these lengths."""

    def all_to_all(self, values: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
        """Send `values[k]` to coordinate k; what each has sent to this rank, which has these `shapes`."""

    def broadcast(self, value: Tensor, source: int) -> Tensor:
        """The `value` of the coordinate `source`; at others `value` has its shape and type only."""

    def reduce(self, value: Tensor, target: int) -> Tensor:
        """The sum of all `value`s at the coordinate `target`; zeros at others."""

    def shift(self, value: Tensor, by: int, shape: Sequence[int]) -> Tensor:
        """Around the ring: send `value` to the coordinate `by` further; what comes from `by` before, which has this `shape`."""

    def exchange(self, to: dict[int, Tensor], shapes: dict[int, Sequence[int]], like: Tensor) -> dict[int, Tensor]:
        """Send to some coordinates, and receive from those of `shapes`, at once; `like` has the type and device of what comes."""

    def send_to(self, value: Tensor, target: int) -> Pending:
        """Begin to send to one other coordinate, which receives what is sent to it by this one in the same order."""

    def receive_from(self, source: int, shape: Sequence[int], like: Tensor) -> Pending:
        """Begin to receive from one other coordinate; the order is that of its sends, whatever is waited for first."""


def near_equal(length: int, parts: int, weights: Sequence[float] | None = None) -> tuple[int, ...]:
    """`length` divided into `parts` whole sizes that are as equal as possible, or in the proportions of `weights`.

    Raises CompositionError for weights that are not `parts` numbers of 0 or more with a positive sum.

    Examples:
        >>> near_equal(10, 4), near_equal(10, 3, (2, 2, 1))
        ((3, 3, 2, 2), (4, 4, 2))
    """
    if weights is None:
        share, rest = divmod(length, parts)
        return tuple(share + (k < rest) for k in range(parts))
    if len(weights) != parts or min(weights) < 0 or not sum(weights) > 0:
        raise CompositionError(f"weights={tuple(weights)} are for {parts} parts: give each a number of 0 or more, not all of them 0.")
    ends = [round(length * reached / sum(weights)) for reached in accumulate(weights)]
    return tuple(end - start for start, end in zip([0, *ends[:-1]], ends, strict=True))


def starts(sizes: Sizes) -> list[int]:
    """The place at which each part begins.

    Examples:
        >>> starts((3, 3, 2))
        [0, 3, 6]
    """
    return [0, *accumulate(sizes)][:-1]


def summand(value: Tensor) -> Tensor:
    """A contiguous copy to add into, in float32 for floating-point numbers of 16 bits."""
    return value.detach().to(torch.float32 if value.dtype in NARROW else value.dtype, copy=True).contiguous()


class Counts:
    """What an axis counts: the calls of each operation, and the bytes that this rank sends, as they are for `size` coordinates.

    `sent` counts the calls of each operation that sent so many bytes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.calls = Counter[str]()
        self.nbytes = Counter[str]()
        self.sent = Counter[tuple[str, int]]()

    def clear(self) -> None:
        """Count from 0 again."""
        for each in (self.calls, self.nbytes, self.sent):
            each.clear()

    def add(self, operation: str, elements: float, value: Tensor) -> None:
        """Count one call of `operation`, which sends so many `elements` of the type of `value`."""
        sent = round(elements * value.element_size())
        self.calls[operation] += 1
        self.nbytes[operation] += sent
        self.sent[operation, sent] += 1

    def reduced(self, operation: str, value: Tensor) -> None:
        """Count an all-reduce: a reduce-scatter and an all-gather."""
        self.add(operation, 2 * value.numel() * (self.size - 1) / self.size, value)

    def scattered(self, value: Tensor, own: int) -> None:
        """Count a reduce-scatter: of `value` all leaves but the `own` elements."""
        self.add("reduce_scatter", value.numel() - own, value)

    def gathered(self, value: Tensor) -> None:
        """Count an all-gather around a ring: the rank sends on what others have, and its own; the mean over the ranks."""
        self.add("all_gather", value.numel() * (self.size - 1), value)
