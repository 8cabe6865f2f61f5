"""An axis with one coordinate: its operations return what they are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torch import Tensor

from polyrhythm.partition.axis import Pending, Sizes
from polyrhythm.partition.pieces import gather_into, reduce_scatter_into


class AxisOfOne:
    """The `Axis` of that `name` where nothing is divided; nothing is sent, and nothing counted."""

    size, index = 1, 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls, self.nbytes = Counter[str](), Counter[str]()

    def all_reduce(self, value: Tensor) -> Tensor:
        return value.clone()

    def maximum(self, value: Tensor) -> Tensor:
        return value.clone()

    def all_gather(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        return value.clone()

    def reduce_scatter(self, value: Tensor, dim: int, sizes: Sizes) -> Tensor:
        return value.clone()

    def gather_into(self, own: Sequence[Tensor], places: Sequence[Sequence[Tensor]]) -> None:
        gather_into(self, own, places)

    def reduce_scatter_into(self, parts: Sequence[Sequence[Tensor]], into: Sequence[Tensor], divisor: float) -> None:
        reduce_scatter_into(self, parts, into, divisor)

    def all_to_all(self, values: Sequence[Tensor], shapes: Sequence[Sequence[int]]) -> list[Tensor]:
        return [value.clone() for value in values]

    def broadcast(self, value: Tensor, source: int) -> Tensor:
        return value.clone()

    def reduce(self, value: Tensor, target: int) -> Tensor:
        return value.clone()

    def shift(self, value: Tensor, by: int, shape: Sequence[int]) -> Tensor:
        return value.clone()

    def exchange(self, to: dict[int, Tensor], shapes: dict[int, Sequence[int]], like: Tensor) -> dict[int, Tensor]:
        return {0: to[0].clone()} if to else {}

    def send_to(self, value: Tensor, target: int) -> Pending:
        raise AssertionError("There is no other coordinate.")

    def receive_from(self, source: int, shape: Sequence[int], like: Tensor) -> Pending:
        raise AssertionError("There is no other coordinate.")
