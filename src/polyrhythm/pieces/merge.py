"""What a merge is: what contributions do to the weights, at whoever holds them (every replica, or a server)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from polyrhythm.pieces.codec import Codec
from polyrhythm.pieces.questions import Packet
from polyrhythm.pieces.terms import Subject
from polyrhythm.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one worker said, or the sum of what `count` workers said.

    `staleness` is the number of merges since the weights were read that it was computed on; `rates` are the learning rates
    of the sender's optimizer, one for each of its parameter groups.
    """

    value: Tensor
    count: int = 1
    staleness: int = 0
    rates: tuple[float, ...] = ()


class Part(Protocol):
    """What a merge sees of a contribution. Ask for `value` once: it may be decoded anew each time."""

    @property
    def value(self) -> Tensor:
        """What was said (numel,)."""

    @property
    def count(self) -> int:
        """By how many workers."""

    @property
    def staleness(self) -> int:
        """How many merges after its weights were read."""

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates of the sender's parameter groups."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A contribution in the words in which it came: many of them may wait, and decoded they would fill the memory."""

    packet: Packet
    codec: Codec
    layout: Layout
    rates: tuple[float, ...]
    count: int = 1
    staleness: int = 0

    @property
    def value(self) -> Tensor:
        """Decoded anew."""
        return self.codec.decode(self.packet, self.layout)


class Rule(Protocol):
    """An optimizer that a holder of weights runs itself: turns a direction (numel,) into a step to subtract."""

    def initial(self, layout: Layout) -> State:
        """The state before the first step."""

    def step(self, direction: Tensor, state: State, rate: float) -> tuple[Tensor, State]:
        """The step (numel,) and the next state; `rate` is the learning rate of the sender's first parameter group."""


class Merge(Protocol):
    """Directions have the sign of a gradient: weights move against them."""

    @property
    def accepts(self) -> frozenset[Subject]:
        """What it can merge."""

    @property
    def rule(self) -> Rule | None:
        """Its own optimizer; None leaves the step to the user's (gradients) or to plain subtraction (updates)."""

    def divisor(self, workers: int) -> float | None:
        """What the sum of all workers' gradients, none of them late, is divided by, if `combine` does nothing else; None if it does."""

    def combine(self, contributions: Sequence[Part], workers: int) -> Tensor:
        """One direction (numel,) from the contributions of one group, of a run with `workers` workers; a new tensor."""

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], workers: int) -> Tensor:
        """My weights after meeting those of others; a new tensor."""
