"""The protocol of a boundary: how what crosses a cut of a pipeline is written for the line between two stages."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from polyrhythm.partition.pipeline.values import Outline


@dataclass(frozen=True, slots=True)
class Crossing:
    """Which value it is: of a training step, a micro-batch of it, and the samples' `ids` if they have any; both ends know it."""

    step: int
    micro: int
    ids: tuple[Hashable, ...] | None = None


class Encoding(Protocol):
    """One direction of one cut, with its state at one end; the other end has one too, which is told the same."""

    def wires(self, outline: Outline) -> Outline:
        """The outline of what is sent for tensors of that outline."""

    def pack(self, tensors: tuple[Tensor, ...], crossing: Crossing) -> tuple[Tensor, ...]:
        """What is sent for these tensors."""

    def unpack(self, wires: tuple[Tensor, ...], outline: Outline, crossing: Crossing) -> tuple[Tensor, ...]:
        """The tensors, or what is like them, from what was sent."""


class Boundary(Protocol):
    """A way over a cut."""

    @property
    def approximate(self) -> bool:
        """Whether a pipeline with it computes something else than one process."""

    def activations(self, cut: int, seed: int) -> Encoding:
        """The way of what the forward pass sends over the cut of that number."""

    def gradients(self, cut: int, seed: int) -> Encoding:
        """The way back."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Send tensors as they are."""

    @property
    def approximate(self) -> bool:
        return False

    def activations(self, cut: int, seed: int) -> Encoding:
        return AsTheyAre()

    def gradients(self, cut: int, seed: int) -> Encoding:
        return AsTheyAre()


class AsTheyAre:
    """The `Encoding` that changes nothing."""

    def wires(self, outline: Outline) -> Outline:
        return outline

    def pack(self, tensors: tuple[Tensor, ...], crossing: Crossing) -> tuple[Tensor, ...]:
        return tensors

    def unpack(self, wires: tuple[Tensor, ...], outline: Outline, crossing: Crossing) -> tuple[Tensor, ...]:
        return wires
