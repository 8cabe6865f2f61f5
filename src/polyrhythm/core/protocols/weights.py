"""Weights as a topology sees them, and the changes that a response may make to them.

`ModelState` is the one implementation of `HeldWeights`, at a replica or a server; channels get it by `InitialState`, and responses when
they are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from torch import Tensor

from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.protocols.merge import AnyContribution
from polyrhythm.core.tensors import Layout


class WeightsView(Protocol):
    """Weights (numel,) as a topology sees them; updates count from `anchor`."""

    @property
    def layout(self) -> Layout:
        """Names and shapes of the tensors in the vector."""

    @property
    def weights(self) -> Tensor:
        """The weights as they are (numel,)."""

    @property
    def anchor(self) -> Tensor:
        """The weights that the workers agreed on last (numel,)."""

    @property
    def factors(self) -> Mapping[str, Factors]:
        """The factors of the gradient that is being exchanged, by the name of the linear layer; empty where none are captured."""

    @property
    def rates(self) -> Callable[[], tuple[float, ...]]:
        """A function that returns the current learning rates of the worker's optimizer; none where it has none."""

    def take_samples(self) -> float:
        """Samples on which the worker has computed since the last call."""


class HeldWeights(WeightsView, Protocol):
    """Weights, and the changes that merging makes to them."""

    def set_anchor(self) -> None:
        """Count the next update from the weights as they are."""

    def set_anchor_to_weights(self) -> None:
        """Count the next update from the current weights, where a separate anchor is kept."""

    def move(self, contributions: Sequence[AnyContribution]) -> None:
        """Merge gradients or updates."""

    def step(self, scale: float) -> None:
        """Step on the gradient that the parameters have, with the optimizer's learning rates times `scale`."""

    def step_on_mean(self) -> None:
        """Step on the mean of all workers' gradients, which the parameters have, with the learning rates that the merge gives it."""

    def mix(self, theirs: Sequence[Tensor]) -> None:
        """Merge the weights of others."""

    def mix_part(self, start: int, layout: Layout, theirs: Sequence[Tensor]) -> None:
        """Merge the weights of others into the range of `layout` that starts at `start`; changes by own steps there still count as such."""

    def replace(self, sent: Tensor, summed: AnyContribution) -> None:
        """Merge the sum of the weights that all have sent, in place of those `sent` (numel,) by this worker."""

    def adopt(self, weights: Tensor) -> None:
        """Replace the weights, without merging."""

    def place(self, weights: Tensor, owned: bool) -> None:
        """Replace the weights by those in `weights` (numel,), and keep them in that memory from now on.

        Where several replicas share weights, the one that `owned` marks restores them from a checkpoint: others may have taken steps by
        then.
        """
