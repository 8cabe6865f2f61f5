"""What a topology brings back from an exchange, and what that does to the worker's replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from polyrhythm.pieces.holder import Holder
from polyrhythm.pieces.merge import Part


class Answer(Protocol):
    """Brought back by the communication side; settled where the program runs, because it may run the user's optimizer."""

    @property
    def contributions(self) -> Sequence[Part]:
        """What the replica has yet to merge, and to decode where it came in a codec's words."""

    def settle(self, holder: Holder) -> None:
        """Do to the replica what the answer says."""


@dataclass(frozen=True, slots=True)
class Move:
    """Contributions for the replica to merge."""

    contributions: Sequence[Part]

    def settle(self, holder: Holder) -> None:
        """Merge them, if there are any."""
        if self.contributions:
            holder.move(self.contributions)


@dataclass(frozen=True, slots=True)
class Step:
    """The merged gradient lies where the worker's own was; `scale` multiplies the learning rates."""

    scale: float

    @property
    def contributions(self) -> Sequence[Part]:
        """None: all is merged."""
        return ()

    def settle(self, holder: Holder) -> None:
        """Step on it."""
        holder.step(self.scale)


@dataclass(frozen=True, slots=True)
class Adopt:
    """Weights that were merged elsewhere."""

    weights: Tensor

    @property
    def contributions(self) -> Sequence[Part]:
        """None: all is merged."""
        return ()

    def settle(self, holder: Holder) -> None:
        """Take them over."""
        holder.adopt(self.weights)


@dataclass(frozen=True, slots=True)
class OwnStep:
    """Nobody is waited for: the worker's optimizer steps on its own gradient, on top of weights that may have come meanwhile."""

    fresh: Tensor | None

    @property
    def contributions(self) -> Sequence[Part]:
        """None: what others said was merged elsewhere."""
        return ()

    def settle(self, holder: Holder) -> None:
        """Take over what has come, and step."""
        if self.fresh is not None:
            holder.adopt(self.fresh)
        holder.step(1.0)


@dataclass(frozen=True, slots=True)
class OwnUpdate:
    """As `OwnStep`, where the worker's optimizer has stepped already: `update` is what it did, with the sign of a gradient."""

    fresh: Tensor | None
    update: Tensor

    @property
    def contributions(self) -> Sequence[Part]:
        """None: what others said was merged elsewhere."""
        return ()

    def settle(self, holder: Holder) -> None:
        """Take over what has come with the update on top; the next update counts from here."""
        if self.fresh is None:
            holder.drop_anchor()
        else:
            holder.adopt(self.fresh - self.update)


@dataclass(frozen=True, slots=True)
class Mix:
    """The weights of others, to be merged with one's own."""

    theirs: Sequence[Tensor]

    @property
    def contributions(self) -> Sequence[Part]:
        """None: these are weights."""
        return ()

    def settle(self, holder: Holder) -> None:
        """Mix them in, if there are any."""
        if self.theirs:
            holder.mix(self.theirs)
