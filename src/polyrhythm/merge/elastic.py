"""Elastic averaging: a worker's weights and the centre's pull on each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import MergeTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Elastic:
    """Both sides move towards each other by α = beta / P of their distance (EASGD; Zhang, Choromanska, LeCun, 2015, eq. 5-6).

    e = α (w - c); w ← w - e; c ← c + e, with the w and c from before the exchange on both sides. The paper takes β = 0.9.
    """

    traits: ClassVar = MergeTraits(frozenset({Payload.WEIGHTS}))

    beta: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.beta < 1:
            raise CompositionError(
                f"Elastic(beta={self.beta}) overshoots or does not pull: beta is the part of the distance that the centre moves when all "
                f"workers have exchanged once, between 0 and 1; the paper takes 0.9."
            )

    def mix(self, mine: Tensor, theirs: Sequence[Tensor], context: ExchangeContext) -> Tensor:
        """mine + β / P Σ (theirs - mine)."""
        pull = theirs[0] - mine
        for other in theirs[1:]:
            pull = pull + (other - mine)
        return mine + self.beta / context.group.size * pull
