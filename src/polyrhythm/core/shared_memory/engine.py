"""Engines that move bytes through a segment: in C where that was built, else in torch alone; both have one protocol and can be mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.core.kernel.message import DTYPES
from polyrhythm.core.shared_memory.segment import CHUNK, SharedSegment

ONE_ROUND = 16 * 1024
"""Up to so many bytes every rank adds up everything, which saves a round of waiting."""
ADDS = frozenset({torch.float32, torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
"""The types that engines add up; tensors of other types go through `gather` or `exchange`."""
CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
OTHER = 31
"""The code of all types that are not in DTYPES."""


class Disagreement(ConnectionAbortedError):
    """Ranks have called different collectives, or ones of different sizes or types."""


@dataclass(frozen=True, slots=True)
class ReduceSpec:
    """The settings of a sum: `operation` by its number in `group.Operation`, the divisor, and whether parts begin with their own rank.

    The tensor begins at element `start` of a vector of `whole` elements, of which those are the parts (for `reduce` alone). `kept` is where
    a tensor that is summed in its place is kept as it was: a sum that is given up puts it back.
    """

    operation: int = 0
    divisor: float = 1.0
    rotated: bool = False
    start: int = 0
    whole: int = 0
    kept: Tensor | None = None


class Reducer(Protocol):
    """All tensors are contiguous and on the CPU, and those to be added up are of a type in `ADDS`.

    Raises ConnectionAbortedError when another rank was lost while it was waited for, or has started another collective, or one of another
    size or type.
    """

    def reduce(self, tensor: Tensor, into: Tensor, how: ReduceSpec) -> None:
        """The sum over all ranks into `into`, which may be `tensor`."""

    def reduce_scatter(self, tensor: Tensor, into: Tensor, how: ReduceSpec) -> None:
        """Part `rank` of the sum, whose P parts are those of `tensor` (P numel of `into`,), into `into`."""

    def gather(self, tensor: Tensor, into: Tensor) -> None:
        """Everyone's `tensor` in rank order into `into` (P times as long)."""

    def exchange(self, tensor: Tensor, into: Tensor) -> None:
        """Send part k of `tensor` to rank k; the parts for this rank go into `into`, in rank order."""

    def broadcast(self, tensor: Tensor, root: int) -> None:
        """The `tensor` of rank `root` in the place of everyone's."""

    def barrier(self) -> None:
        """Return when all have come."""

    def lose(self, rank: int) -> None:
        """Wait for `rank` no longer; from any thread."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A rank's attachment to a segment. `spins` is how often to look at a counter before sleeping on it."""

    segment: SharedSegment
    rank: int
    spins: int
    chunk: int = CHUNK

    @property
    def ranks(self) -> int:
        """The number of ranks that take part."""
        return self.segment.ranks


def lengths(sizes: Sequence[int]) -> int:
    """11 bits of how many bytes each rank has, as in `_pieces.c`."""
    found = 1469598103934665603
    for size in sizes:
        found = (found ^ size) * 1099511628211 % 2**64
    return (found ^ found >> 11 ^ found >> 32) & 0x7FF
