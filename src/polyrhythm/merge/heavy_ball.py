"""Heavy-ball momentum where the weights are held, reduced by the momentum that asynchrony adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class HeavyBall:
    """b ← μ b + d; step = η b, η being the workers' learning rate (Polyak, 1964, as torch.optim.SGD has it)."""

    takes_rate: ClassVar = True
    takes_norm: ClassVar = True

    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise CompositionError(f"HeavyBall(momentum={self.momentum}) would not converge: give at least 0 and less than 1.")

    @staticmethod
    def beside(groups: int, momentum: float) -> HeavyBall:
        """The rule with `momentum` less the implicit momentum of `groups` groups that step one by one.

        Their asynchrony acts as a momentum of 1 - 1 / G (Mitliagkas et al., Asynchrony begets momentum, 2016, theorem 3), so μ is
        momentum - (1 - 1 / G), or 0 where that is less (Kurth et al., SC 2017, section III-E). Raises CompositionError for no groups.

        Examples:
            >>> [round(HeavyBall.beside(groups, 0.9).momentum, 2) for groups in (1, 2, 4, 16)]
            [0.9, 0.4, 0.15, 0.0]
        """
        if groups < 1:
            raise CompositionError(f"HeavyBall.beside(groups={groups}) has nobody who steps: give 1 or more.")
        return HeavyBall(momentum if groups == 1 or not 0 <= momentum < 1 else max(0.0, momentum - (1 - 1 / groups)))

    def initial(self, layout: Layout) -> State:
        return {"momentum": torch.zeros(layout.numel)}

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        momentum = self.momentum * state["momentum"].to(direction.device) + direction
        return rate * momentum, {"momentum": momentum}
