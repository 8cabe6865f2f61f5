"""The protocol of a boundary: how what crosses a cut of a pipeline is written for the line between two stages."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from polyrhythm.partition.pipeline.values import Outline


@dataclass(frozen=True, slots=True)
class Crossing:
    """Which value it is: a micro-batch of a batch of a kind, "step" for those that train, and the samples' `ids` if they have some."""

    kind: str
    number: int
    micro: int
    ids: tuple[Hashable, ...] | None = None

    @property
    def trains(self) -> bool:
        """Whether it belongs to a training step."""
        return self.kind == "step"


class Encoding(Protocol):
    """One direction of one cut, with its state at one end. The other end has one too, which is told the same in the same order."""

    def wires(self, outline: Outline, crossing: Crossing) -> Outline:
        """The outline of what is sent for tensors of that outline."""

    def pack(self, tensors: tuple[Tensor, ...], crossing: Crossing) -> tuple[Tensor, ...]:
        """What is sent for these tensors."""

    def unpack(self, wires: tuple[Tensor, ...], outline: Outline, crossing: Crossing) -> tuple[Tensor, ...]:
        """The tensors, or what is like them, from what was sent."""

    def error(self) -> float:
        """The squared error of what this end has sent in the last training step, relative to its square."""

    @property
    def kept(self) -> int:
        """The bytes that this end remembers."""


class Boundary(Protocol):
    """A way over a cut."""

    @property
    def approximate(self) -> bool:
        """Whether a pipeline with it computes something else than one process."""

    @property
    def by_sample(self) -> bool:
        """Whether its ends remember what they have sent of each sample."""

    def refusal(self) -> str:
        """Why its settings cannot be, with a remedy; "" if they can."""

    def activations(self, cut: int, seed: int) -> Encoding:
        """One end of the way of what the forward pass sends over the cut of that number."""

    def gradients(self, cut: int, seed: int) -> Encoding:
        """One end of the way back."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Send tensors as they are."""

    @property
    def approximate(self) -> bool:
        return False

    @property
    def by_sample(self) -> bool:
        return False

    def refusal(self) -> str:
        return ""

    def activations(self, cut: int, seed: int) -> Encoding:
        return AsTheyAre()

    def gradients(self, cut: int, seed: int) -> Encoding:
        return AsTheyAre()


class AsTheyAre:
    """The `Encoding` that changes nothing."""

    kept = 0

    def wires(self, outline: Outline, crossing: Crossing) -> Outline:
        return outline

    def pack(self, tensors: tuple[Tensor, ...], crossing: Crossing) -> tuple[Tensor, ...]:
        return tensors

    def unpack(self, wires: tuple[Tensor, ...], outline: Outline, crossing: Crossing) -> tuple[Tensor, ...]:
        return wires

    def error(self) -> float:
        return 0.0
