"""What a rank of a pipeline does, one after another, and which messages that makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward pass of one micro-batch through the rank's `chunk`. A negative `micro` belongs to an earlier batch."""

    micro: int
    chunk: int = 0
    moves: ClassVar[int] = 1
    begins: ClassVar[int] = 1
    ends: ClassVar[int] = 0
    whole: ClassVar[bool] = True
    leaves: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Backward:
    """The backward pass: gradients of the input, which are sent, and of the weights."""

    micro: int
    chunk: int = 0
    moves: ClassVar[int] = -1
    begins: ClassVar[int] = 0
    ends: ClassVar[int] = 1
    whole: ClassVar[bool] = True
    leaves: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class BackwardInput:
    """The part of the backward pass that the stage before waits for."""

    micro: int
    chunk: int = 0
    moves: ClassVar[int] = -1
    begins: ClassVar[int] = 0
    ends: ClassVar[int] = 0
    whole: ClassVar[bool] = False
    leaves: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class BackwardWeight:
    """The part of the backward pass that nobody waits for: gradients of weights."""

    micro: int
    chunk: int = 0
    moves: ClassVar[int] = 0
    begins: ClassVar[int] = 0
    ends: ClassVar[int] = 1
    whole: ClassVar[bool] = False
    leaves: ClassVar[bool] = False


Action = Forward | Backward | BackwardInput | BackwardWeight
"""`moves` says to which neighbour it sends; `begins` and `ends` how many micro-batches are kept from then on, and no longer. A `whole` one
is all that a rank does of a micro-batch in that direction, which can have a route. One that `leaves` makes no gradients of weights."""
Actions = Sequence[Action]


@dataclass(frozen=True, slots=True)
class StageMessage:
    """What is sent for one micro-batch to `stage`: its input, or with `gradient` the gradient of its output."""

    stage: int
    micro: int
    gradient: bool = False


@dataclass(frozen=True, slots=True)
class StageGrid:
    """`ranks` with `chunks` stages each: stage `s` is chunk s // ranks of rank s % ranks."""

    ranks: int
    chunks: int = 1

    @property
    def stages(self) -> int:
        """The number of stages."""
        return self.ranks * self.chunks

    def stage(self, rank: int, chunk: int) -> int:
        """The stage that is this chunk of a rank."""
        return chunk * self.ranks + rank

    def rank(self, stage: int) -> int:
        """The rank that has a stage."""
        return stage % self.ranks

    def sent(self, rank: int, action: Action) -> Iterator[StageMessage]:
        """The messages that an action of a rank makes."""
        to = self.stage(rank, action.chunk) + action.moves
        if action.moves and 0 <= to < self.stages:
            yield StageMessage(to, action.micro, gradient=action.moves < 0)

    def needed(self, rank: int, action: Action) -> Iterator[StageMessage]:
        """The messages that an action of a rank waits for."""
        stage = self.stage(rank, action.chunk)
        if action.moves and 0 <= stage - action.moves < self.stages:
            yield StageMessage(stage, action.micro, gradient=action.moves < 0)

    def source(self, message: StageMessage) -> int:
        """The rank that sends a message."""
        return self.rank(message.stage + (1 if message.gradient else -1))
