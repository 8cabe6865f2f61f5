"""Send elements drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.codec.sparse.sparse import ChosenElements, check_share, drawn
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout


@dataclass(frozen=True, slots=True)
@checked
class RandomK(ChosenElements):
    """⌈ratio · n⌉ elements drawn uniformly without repetition, each as an int32 index and its value (rand_k of Stich et al., 2018).

    Every worker draws its own. The values are sent as they are and not scaled by n / k, so that what is sent is small but
    biased towards zero: wrap it, ErrorFeedback(RandomK(0.01)), for which the paper proves convergence.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)

    ratio: float

    def __post_init__(self) -> None:
        check_share("RandomK", self.ratio)

    def choose(self, value: Tensor, layout: Layout, context: ExchangeContext) -> Tensor:
        return drawn(context.draw, self.ratio, value.numel())


EXAMPLES = (RandomK(0.1), RandomK(1.0))
