"""How far what arrives is from what was sent."""

from __future__ import annotations

from torch import Tensor

from polyrhythm.partition.pipeline.boundary import Crossing


class RelativeError:
    """The squared error of one training step, relative to the squares of what was sent; evaluations are left out."""

    def __init__(self) -> None:
        self._step = -1
        self._errors: list[Tensor] = []
        self._squares: list[Tensor] = []

    def add(self, sent: Tensor, arrived: Tensor, crossing: Crossing) -> None:
        """Note one tensor; the first of another step begins anew."""
        if not crossing.trains:
            return
        if crossing.number != self._step:
            self._step = crossing.number
            self._errors, self._squares = [], []
        self._errors.append((sent - arrived).double().square().sum())
        self._squares.append(sent.double().square().sum())

    def value(self) -> float:
        """0 where nothing was sent."""
        squares = sum(each.item() for each in self._squares)
        return sum(each.item() for each in self._errors) / squares if squares else 0.0
