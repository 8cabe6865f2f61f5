"""What a topology may know of the weights that somebody holds, and what a response may do to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from torch import Tensor

from polyrhythm.core.protocols.factors import Factors
from polyrhythm.core.protocols.merge import AnyContribution
from polyrhythm.core.tensors import Layout


class WeightsView(Protocol):
    """Weights (numel,) as a topology sees them; `anchor` is where an update counts from."""

    @property
    def layout(self) -> Layout:
        """Names and shapes of what lies in the vector."""

    @property
    def weights(self) -> Tensor:
        """The weights as they are (numel,)."""

    @property
    def anchor(self) -> Tensor:
        """What the workers agreed on last (numel,)."""

    @property
    def factors(self) -> Mapping[str, Factors]:
        """What multiplies out to the gradient that is being exchanged, by the name of the linear layer; empty where nobody collects it."""

    @property
    def rates(self) -> Callable[[], tuple[float, ...]]:
        """Gives the learning rates of the worker's optimizer as they are; none where it has none."""

    def take_samples(self) -> float:
        """On how many samples the worker has computed since this was last called."""


class HeldWeights(WeightsView, Protocol):
    """Weights, and what merging does to them."""

    def set_anchor(self) -> None:
        """Count the next update from the weights as they are."""

    def set_anchor_to_weights(self) -> None:
        """As `set_anchor`, where there is one beside the weights."""

    def move(self, contributions: Sequence[AnyContribution]) -> None:
        """Merge gradients or updates."""

    def step(self, scale: float) -> None:
        """Step on the gradient that the parameters have, with the optimizer's learning rates times `scale`."""

    def step_on_mean(self) -> None:
        """As `step`, on the mean of all workers' gradients, with the learning rates that the merge gives it."""

    def mix(self, theirs: Sequence[Tensor]) -> None:
        """Merge the weights of others."""

    def mix_part(self, start: int, layout: Layout, theirs: Sequence[Tensor]) -> None:
        """Merge the weights of others into the range of `layout` that begins at `start`; what own steps did there still counts as such."""

    def replace(self, sent: Tensor, summed: AnyContribution) -> None:
        """Merge the sum of what all sent of their weights, in the place of what was `sent` (numel,) of these."""

    def adopt(self, weights: Tensor) -> None:
        """Replace the weights."""

    def place(self, weights: Tensor, owned: bool) -> None:
        """Replace the weights by those in `weights` (numel,), and let them lie in that memory from now on.

        Of weights that several share, the one replica restores them that they are `owned` by: others may have taken steps by then.
        """
