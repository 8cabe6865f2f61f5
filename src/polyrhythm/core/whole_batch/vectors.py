"""One server's part of the vectors, and what the deeds of orders do with them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polyrhythm.core.trees import StateTree
from polyrhythm.core.whole_batch.orders import ANSWERED, Deed, VectorOrder

Contribution = tuple[str, int]
"""A worker, and the number of its sum in an evaluation."""


class ServerVectors:
    """`held` are the parts (n,) by number. `published` and `settled` are copies, with the evaluation and the step that they belong to."""

    def __init__(self, weights: Tensor) -> None:
        self.like = weights
        self.held: dict[int, Tensor] = {0: weights.clone()}
        self.sums: dict[Contribution, Tensor] = {}
        self.published, self.evaluation = weights, 0
        self.settled, self.step = weights, 0

    def add(self, worker: str, number: int, part: Tensor) -> None:
        """A worker's sum for the evaluation under way has come."""
        self.sums[worker, number] = part

    def obey(self, orders: Sequence[VectorOrder], contributions: Sequence[Contribution]) -> list[float]:
        """Carry out orders, and give the answers; `contributions` are those that are summed, in this order."""
        return [found for order in orders if (found := self._obey(order, contributions)) is not None]

    def _obey(self, order: VectorOrder, contributions: Sequence[Contribution]) -> float | None:
        if order.deed in ANSWERED:
            return self._answer(order)
        match order.deed:
            case Deed.FREE:
                self.held.pop(order.first, None)
            case Deed.PUBLISH:
                self.published, self.evaluation = self.held[order.first].clone(), int(order.a)
                self.sums.clear()
            case Deed.SETTLE:
                self.settled, self.step = self.held[order.first].clone(), int(order.a)
            case Deed.GATHER:
                total = torch.zeros_like(self.like, dtype=torch.float64)
                for contribution in contributions:
                    total += self.sums[contribution]
                self.sums.clear()
                self.held[order.out] = total.to(self.like.dtype)
            case _:
                self.held[order.out] = self._value(order)
        return None

    def _value(self, order: VectorOrder) -> Tensor:
        match order.deed:
            case Deed.FILL:
                return torch.full_like(self.like, order.a)
            case Deed.COPY:
                return self.held[order.first].clone()
            case Deed.SCALE:
                return self.held[order.first] * order.a
            case Deed.AXPY:
                return torch.add(self.held[order.first], self.held[order.second], alpha=order.a)
            case _:
                return self.held[order.first].abs()

    def _answer(self, order: VectorOrder) -> float:
        """In float64, so that the sum over servers is rounded once."""
        x = self.held[order.first].double()
        if order.deed is Deed.MAX:
            return float(x.max()) if len(x) else float("-inf")
        return float(x.dot(self.held[order.second].double())) if order.deed is Deed.DOT else float(x.sum())

    def export(self) -> StateTree:
        """All vectors and where they are; between two evaluations there are no sums."""
        names = sorted(self.held)
        where = {"names": names, "evaluation": self.evaluation, "step": self.step}
        return {**where, "held": [self.held[name] for name in names], "published": self.published, "settled": self.settled}

    def restore(self, state: StateTree) -> None:
        self.held = dict(zip(state["names"], (each.clone() for each in state["held"]), strict=True))
        self.published, self.evaluation = state["published"].clone(), state["evaluation"]
        self.settled, self.step = state["settled"].clone(), state["step"]
