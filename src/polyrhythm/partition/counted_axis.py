"""An axis that moves nothing: what would be sent, counted on tensors without memory.

`explain` and the planner run the local modules of each rank on it, so what they say about bytes comes from the code that sends them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from polyrhythm.partition.axis import Arrived, Counts, Pending, Sizes
from polyrhythm.partition.pieces import first_of, length_of


class CountedAxis:
    """The `Axis` of that `name` as the rank at `index` of `size` sees it; results have the right shapes and types, and no values.

    `sent_to` counts the bytes of `send_to` by the coordinate to which they go.
    """

    def __init__(self, name: str, size: int, index: int) -> None:
        self.name, self.size, self.index = name, size, index
        self.counts = Counts(size)
        self.calls, self.nbytes = self.counts.calls, self.counts.nbytes
        self.sent_to = Counter[int]()

    def clear(self) -> None:
        """Count from 0 again."""
        self.counts.clear()
        self.sent_to.clear()

    def all_reduce(self, value: Tensor) -> Tensor:
        self.counts.reduced("all_reduce", value)
        return torch.empty_like(value)

    def maximum(self, value: Tensor) -> Tensor:
        self.counts.reduced("maximum", value)
        return torch.empty_like(value)

    def all_gather(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        self.counts.gathered(value)
        return value.new_empty(_with(value, dim, sum(sizes)))

    def reduce_scatter(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        part = value.new_empty(_with(value, dim, sizes[self.index]))
        self.counts.scattered(value, part.numel())
        return part

    def gather_into(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        self.counts.add("all_gather", length_of(own) * (self.size - 1), first_of(places))

    def reduce_scatter_into(self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], divisor: float) -> None:
        elements = [length_of(pieces) for pieces in parts]
        self.counts.add("reduce_scatter", sum(elements) - elements[self.index], first_of(parts))

    def all_to_all(self, values: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
        sent = sum(value.numel() for k, value in enumerate(values) if k != self.index)
        self.counts.add("all_to_all", sent, values[0])
        return [values[0].new_empty(tuple(shape)) for shape in shapes]

    def broadcast(self, value: Tensor, source: int) -> Tensor:
        self.counts.add("broadcast", value.numel() * (self.size - 1) / self.size, value)
        return torch.empty_like(value)

    def reduce(self, value: Tensor, target: int) -> Tensor:
        self.counts.add("reduce", value.numel() * (self.size - 1) / self.size, value)
        return torch.empty_like(value)

    def shift(self, value: Tensor, by: int, shape: Sequence[int]) -> Tensor:
        self.counts.add("shift", value.numel(), value)
        return value.new_empty(tuple(shape))

    def exchange(self, to: dict[int, Tensor], shapes: dict[int, Sequence[int]], like: Tensor) -> dict[int, Tensor]:
        self.counts.add("exchange", sum(value.numel() for value in to.values()), like)
        return {source: like.new_empty(tuple(shape)) for source, shape in shapes.items()}

    def send_to(self, value: Tensor, target: int) -> Pending:
        self.counts.add("send_to", value.numel(), value)
        self.sent_to[target] += value.numel() * value.element_size()
        return Arrived(value)

    def receive_from(self, source: int, shape: Sequence[int], like: Tensor) -> Pending:
        return Arrived(like.new_empty(tuple(shape)))


def _with(value: Tensor, dim: int, length: int) -> list[int]:
    shape = list(value.shape)
    shape[dim] = length
    return shape
