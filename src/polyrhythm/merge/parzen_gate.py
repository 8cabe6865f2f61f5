"""A gate for the weights of others: only those that lie in the direction of the worker's own step are mixed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import MergeTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class ParzenGate:
    """Mix in only the weights of others that the worker's own step comes closer to (Keuper, Pfreundt, 2015, arXiv:1505.04956).

    With w before the step and w - Δ after it, w_j is accepted if ‖w - Δ - w_j‖ < ‖w - w_j‖; then w ← w - Δ - rate · (w - m), where m is
    the mean of w and all that were accepted. The paper takes its step size for `rate`; 1 goes to the mean at once. Where only a
    part of the weights was sent, all of this applies to that part.
    """

    traits: ClassVar = MergeTraits(frozenset({Payload.WEIGHTS}), frozenset({Capability.AT_WORKERS}), sees_moved=True)

    rate: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise CompositionError(
                f"ParzenGate(rate={self.rate}) does not pull, or goes beyond the mean: give a number above 0, at most 1."
            )

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], context: ExchangeContext) -> Tensor:
        """The weights after the step, moved towards the mean with the accepted ones."""
        before = mine + context.moved.to(mine.device)
        accepted = [other for other in theirs if (mine - other).norm() < (before - other).norm()]
        if not accepted:
            return mine.clone()
        mean = before.clone()
        for other in accepted:
            mean += other
        return mine - self.rate * (before - mean.div_(1 + len(accepted)))
