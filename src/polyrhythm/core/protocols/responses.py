"""The responses of a topology to an exchange, and their effect on the worker's replica.

Channels make them; the replica applies them to its `ModelState`.
"""

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
    """A response: made by the communication side, applied where the program runs, because it may run the user's optimizer."""

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """Contributions that the replica still has to merge, and to decode where they are encoded."""

    def apply(self, model_state: HeldWeights) -> None:
        """Change the replica by this response."""


@dataclass(frozen=True, slots=True)
class ApplyContributions:
    """Contributions for the replica to merge."""

    contributions: Sequence[AnyContribution]

    def apply(self, model_state: HeldWeights) -> None:
        """Merge the contributions, if there are any."""
        if self.contributions:
            model_state.move(self.contributions)


@dataclass(frozen=True, slots=True)
class ApplyOneByOne:
    """Contributions of several steps, each of which the replica merges by itself, in order."""

    contributions: Sequence[AnyContribution]

    def apply(self, model_state: HeldWeights) -> None:
        """Merge one contribution after the other."""
        for contribution in self.contributions:
            model_state.move([contribution])


@dataclass(frozen=True, slots=True)
class ApplyOnTop:
    """Contributions of others, to be merged into the current weights: these include the worker's own update already."""

    contributions: Sequence[AnyContribution]

    def apply(self, model_state: HeldWeights) -> None:
        """Merge the contributions, if there are any; the next update counts from the result."""
        model_state.set_anchor_to_weights()
        if self.contributions:
            model_state.move(self.contributions)


@dataclass(frozen=True, slots=True)
class ApplyInPlace:
    """The mean of all workers' gradients lies where the worker's own gradient was."""

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None are left: all is merged."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Step on the mean of the gradients."""
        model_state.step_on_mean()


@dataclass(frozen=True, slots=True)
class AdoptWeights:
    """Weights that were merged elsewhere, and replace the worker's."""

    weights: Tensor

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None are left: all is merged."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Replace the replica's weights by these."""
        model_state.adopt(self.weights)


@dataclass(frozen=True, slots=True)
class AdoptBeneath:
    """Weights that were merged elsewhere, and replace those from which the worker's next update counts: what it has done since is kept."""

    weights: Tensor

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None are left: all is merged."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Replace the anchor by these, and move on from there by the steps of the worker since its last exchange."""
        since = model_state.weights - model_state.anchor
        model_state.adopt(self.weights)
        model_state.weights.add_(since)


@dataclass(frozen=True, slots=True)
class PlaceWeights:
    """The replica's weights lie in `weights` (numel,) from now on, with the values there; `owned` as in `HeldWeights.place`."""

    weights: Tensor
    owned: bool = True

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None are left: all is merged."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Use this memory for the replica's weights."""
        model_state.place(self.weights, self.owned)


@dataclass(frozen=True, slots=True)
class StepLocally:
    """The worker's optimizer steps on its own gradient without waiting, from fresh weights if some have arrived in the meantime."""

    fresh: Tensor | None

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None are left: those of others were merged elsewhere."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Take over fresh weights, if there are any, and step."""
        if self.fresh is not None:
            model_state.adopt(self.fresh)
        model_state.step(1.0)


@dataclass(frozen=True, slots=True)
class RebaseUpdate:
    """Fresh weights, if any, for a worker whose optimizer has stepped already: `update` is its change, with the sign of a gradient."""

    fresh: Tensor | None
    update: Tensor

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None are left: those of others were merged elsewhere."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Take over fresh weights with the update on top; the next update counts from here."""
        if self.fresh is None:
            model_state.set_anchor()
        else:
            model_state.adopt(self.fresh - self.update)


@dataclass(frozen=True, slots=True)
class MixWeights:
    """The weights of others, to be merged with the worker's own."""

    theirs: Sequence[Tensor]

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None, because these are weights."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Mix in the weights, if there are any."""
        if self.theirs:
            model_state.mix(self.theirs)


@dataclass(frozen=True, slots=True)
class MixParts:
    """The weights of others, each of a part of the vector: its start, its layout, and the weights that have come for it."""

    theirs: Sequence[tuple[int, Layout, Sequence[Tensor]]]

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None, because these are weights."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Mix in the weights; the worker's next update counts from the result, or from its own weights if none have come."""
        for start, layout, theirs in self.theirs:
            model_state.mix_part(start, layout, theirs)
        model_state.set_anchor_to_weights()


@dataclass(frozen=True, slots=True)
class ApplyAndLearn:
    """The effect of `first`, followed by a step towards another worker's weights: w ← (1 - share) w + share theirs."""

    first: Response
    theirs: Tensor
    share: float

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """The contributions of the first response."""
        return self.first.contributions

    def apply(self, model_state: HeldWeights) -> None:
        """Apply the first response, then move towards the other weights."""
        self.first.apply(model_state)
        model_state.adopt(torch.lerp(model_state.weights, self.theirs.to(model_state.weights.device), self.share))


@dataclass(frozen=True, slots=True)
class ReplaceSent:
    """Replaces the part of its weights that this worker has `sent` (numel,) by the merge of the sum of all parts sent.

    The other weights stay as they are.
    """

    sent: Tensor
    summed: AnyContribution

    @property
    def contributions(self) -> Sequence[AnyContribution]:
        """None, because these are weights."""
        return ()

    def apply(self, model_state: HeldWeights) -> None:
        """Replace the part that was sent."""
        model_state.replace(self.sent, self.summed)
