"""Send the elements that are large enough, in full."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from polyrhythm.codec.kernels.kernels import not_below
from polyrhythm.codec.sparse.sparse import ChosenElements
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Significant(ChosenElements):
    """Every element of magnitude `threshold` or more, as an int32 index and its whole value (Addair, 2017).

    Significant(0) sends everything. Threshold sends a quantum instead of the value, and its zero would send nothing.
    Elements that are not sent are lost: wrap it, ErrorFeedback(Significant(0.001)).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)

    threshold: float

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < math.inf:
            raise CompositionError(
                f"Significant(threshold={self.threshold}) cannot tell large from small: threshold is a magnitude, a number of at least 0."
            )

    def choose(self, value: Tensor, layout: Layout, context: ExchangeContext) -> Tensor:
        """NaN is sent too, so that receivers see it."""
        return not_below(value, self.threshold)


EXAMPLES = (Significant(0.5), Significant(0))
