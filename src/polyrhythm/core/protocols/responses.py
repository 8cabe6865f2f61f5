"""What a topology returns from an exchange, and what that does to the worker's replica."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from polyrhythm.core.protocols.merge import AnyContribution
from polyrhythm.core.protocols.weights import HeldWeights
from polyrhythm.core.tensors import Layout


class Response(Protocol):
    """Made by the communication side; applied where the program runs, because it may run the user's optimizer."""

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """What the replica has yet to merge, and to decode where it came encoded."""

    def apply(self, model_state: HeldWeights) -> None:
        """Change the replica as the response has it."""


@dataclass(frozen=True, slots=True)
class ApplyContributions:
    """Contributions for the replica to merge."""

    contributions: Sequence[AnyContribution]

    def apply(self, model_state: HeldWeights) -> None:
        """Merge them, if there are any."""
        if self.contributions:
            model_state.move(self.contributions)


@dataclass(frozen=True, slots=True)
class ApplyOneByOne:
    """Contributions of several steps, each of which the replica merges by itself, in order."""

    contributions: Sequence[AnyContribution]

    def apply(self, model_state: HeldWeights) -> None:
        """Merge one after the other."""
        for contribution in self.contributions:
            model_state.move([contribution])


@dataclass(frozen=True, slots=True)
class ApplyOnTop:
    """Contributions of others, to be merged into the weights as they are: one's own update is in them already."""

    contributions: Sequence[AnyContribution]

    def apply(self, model_state: HeldWeights) -> None:
        """Merge them, if there are any; the next update counts from there."""
        model_state.set_anchor_to_weights()
        if self.contributions:
            model_state.move(self.contributions)


@dataclass(frozen=True, slots=True)
class ApplyInPlace:
    """The mean of all workers' gradients lies where the worker's own was."""

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None: all is merged."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Step on it."""
        model_state.step_on_mean()


@dataclass(frozen=True, slots=True)
class AdoptWeights:
    """Weights that were merged elsewhere."""

    weights: Tensor

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None: all is merged."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Take them over."""
        model_state.adopt(self.weights)


@dataclass(frozen=True, slots=True)
class PlaceWeights:
    """The replica's weights lie in `weights` (numel,) from now on, with the values there; `owned` as in `HeldWeights.place`."""

    weights: Tensor
    owned: bool = True

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None: all is merged."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Let them lie there."""
        model_state.place(self.weights, self.owned)


@dataclass(frozen=True, slots=True)
class StepLocally:
    """Without waiting, the worker's optimizer steps on its own gradient, starting from weights that may have arrived meanwhile."""

    fresh: Tensor | None

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None: what others sent was merged elsewhere."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Take over what has come, and step."""
        if self.fresh is not None:
            model_state.adopt(self.fresh)
        model_state.step(1.0)


@dataclass(frozen=True, slots=True)
class RebaseUpdate:
    """As `StepLocally`, where the worker's optimizer has stepped already: `update` is what it did, with the sign of a gradient."""

    fresh: Tensor | None
    update: Tensor

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None: what others sent was merged elsewhere."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Take over what has come with the update on top; the next update counts from here."""
        if self.fresh is None:
            model_state.set_anchor()
        else:
            model_state.adopt(self.fresh - self.update)


@dataclass(frozen=True, slots=True)
class MixWeights:
    """The weights of others, to be merged with one's own."""

    theirs: Sequence[Tensor]

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None: these are weights."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Mix them in, if there are any."""
        if self.theirs:
            model_state.mix(self.theirs)


@dataclass(frozen=True, slots=True)
class MixParts:
    """The weights of others, each of a part of the vector: where it starts, its layout, and what has come of it."""

    theirs: Sequence[tuple[int, Layout, Sequence[Tensor]]]

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None: these are weights."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Mix them in; a worker's next steps count from there, and from where it is if nothing has come."""
        for start, layout, theirs in self.theirs:
            model_state.mix_part(start, layout, theirs)
        model_state.set_anchor_to_weights()


@dataclass(frozen=True, slots=True)
class ApplyAndLearn:
    """What `first` does, and then the weights of another worker in part: w ← (1 - share) w + share theirs."""

    first: Response
    theirs: Tensor
    share: float

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """Those of the first."""
        return self.first.contributions

    def apply(self, model_state: HeldWeights) -> None:
        """One after the other."""
        self.first.apply(model_state)
        model_state.adopt(torch.lerp(model_state.weights, self.theirs.to(model_state.weights.device), self.share))


@dataclass(frozen=True, slots=True)
class ReplaceSent:
    """What a merge makes of the sum of what all sent of their weights takes the place of what this worker has `sent` (numel,).

    The rest stays as it is.
    """

    sent: Tensor
    summed: AnyContribution

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None: these are weights."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Replace what was sent."""
        model_state.replace(self.sent, self.summed)
