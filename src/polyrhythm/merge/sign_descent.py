"""Sign descent: steps of equal size in every coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class SignDescent:
    """step = η sign(d), with the workers' learning rate or `learning_rate` (signSGD; Bernstein et al., 2018); nothing where d is zero."""

    takes_norm: ClassVar = False

    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise CompositionError(f"SignDescent(learning_rate={self.learning_rate}) cannot step: the learning rate must be positive.")

    @property
    def takes_rate(self) -> bool:
        """True if it steps with the workers' learning rate."""
        return self.learning_rate is None

    def initial(self, layout: Layout) -> State:
        return {}

    def step(self, direction: Tensor, state: State, rate: float, workers: int = 1) -> tuple[Tensor, State]:
        return (rate if self.learning_rate is None else self.learning_rate) * direction.sign(), state
