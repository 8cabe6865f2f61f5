"""Each step changes one random component of the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import LocalHooks
from polyrhythm.core.protocols.traits import LOCAL, LocalTraits, Payload
from polyrhythm.core.tensors import NO_GRADIENT, State


@dataclass(frozen=True, slots=True)
class RandomComponent:
    """Each step keeps one of the components that the gradient has, drawn uniformly, times their number (Hogwild!, section 4).

    It is the variant that Niu, Recht, Ré, Wright (NIPS 2011) analyse: of a sample that touches the weights e, one in e moves |e| times
    as far, so that the step is the same on average and workers collide less often. Components are the elements that are not 0; a sparse
    gradient stays sparse. Meant for optimizers without momentum, which would write to other weights too.
    """

    traits: ClassVar = LocalTraits(LOCAL | {Payload.NOTHING}, componentwise=True)

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(correct=self.correct)

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """One component, scaled, and NO_GRADIENT elsewhere, which unlike zeros keeps an optimizer from decaying those weights."""
        present = gradient.nonzero().view(-1)
        kept = torch.full_like(gradient, NO_GRADIENT)
        if len(present):
            chosen = present[int(context.draw.integers(len(present)))]
            kept[chosen] = gradient[chosen] * len(present)
        return kept
