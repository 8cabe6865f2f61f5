"""Each step changes one random block of the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.local import LocalHooks
from polyrhythm.core.protocols.traits import LOCAL, LocalTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class OneBlock:
    """Each step changes one of `blocks` ranges of the weights, drawn uniformly (AsySG-incon; Lian et al., NIPS 2015, algorithm 2).

    The paper draws one coordinate. The rest of the gradient is dropped, and the block's is not scaled: as there, a step moves 1 / blocks as
    far on average. Meant for optimizers without momentum, which would write to other blocks too.
    """

    traits: ClassVar = LocalTraits(LOCAL | {Payload.NOTHING})

    blocks: int

    def __post_init__(self) -> None:
        if not self.blocks >= 1:
            raise CompositionError(f"OneBlock(blocks={self.blocks}) has no block to step on: give 1 (all of the weights) or more.")

    @property
    def hooks(self) -> LocalHooks:
        return LocalHooks(correct=self.correct)

    def correct(self, gradient: Tensor, context: ExchangeContext, state: State) -> Tensor:
        """The gradient of the block, and NO_GRADIENT elsewhere, which unlike zeros keeps an optimizer from decaying those weights."""
        chosen = int(context.draw.integers(self.blocks))
        start, end = (gradient.numel() * number // self.blocks for number in (chosen, chosen + 1))
        kept = torch.full_like(gradient, -0.0)
        kept[start:end] = gradient[start:end]
        return kept


EXAMPLES = (OneBlock(3),)
