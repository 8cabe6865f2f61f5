"""Send only the elements that are large relative to the weights that they change, in full."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.codec.sparse.sparse import ChosenElements
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Relative(ChosenElements):
    """Every element of magnitude v / √t · max(|w|, `floor`) or more, as an int32 index and its whole value (Gaia; Hsieh et al., 2017).

    The significance filter of section 3.2: v is `threshold` (the paper begins with 0.01), t the clock, w the sender's weight. `floor` is in
    units of weights, and `share` one of the mean |w| of the tensor, whichever is larger: near zero a weight would make every change
    significant. Instead of √t it may be t^`decay`; with a `decay` of 0 the threshold stays as it is. Relative(0) sends everything. It is
    meant for updates, and elements that are not sent are lost: wrap it, ErrorFeedback(Relative(0.01)), which sends them when enough has
    accumulated.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)

    threshold: float = 0.01
    floor: float = 1e-3
    decay: float = 0.5
    share: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.threshold < math.inf and 0 < self.floor < math.inf):
            raise CompositionError(
                f"Relative(threshold={self.threshold}, floor={self.floor}) cannot tell large from small: threshold is a part of a weight, "
                "a number of at least 0, and floor a magnitude above 0, such as 0.001."
            )
        if not (0 <= self.decay < math.inf and 0 <= self.share < math.inf):
            raise CompositionError(
                f"Relative(decay={self.decay}, share={self.share}) cannot be: decay is the power of steps by which the threshold falls, "
                "0.5 or 0 for one that stays, and share a part of a tensor's mean magnitude; give at least 0."
            )

    def choose(self, value: Tensor, layout: Layout, context: ExchangeContext) -> Tensor:
        """NaN is sent too, so that receivers see it."""
        significant = self._sizes(np.abs(context.weights.numpy()), layout)
        significant *= self.threshold / max(1, context.clock) ** self.decay
        return torch.from_numpy(np.flatnonzero(~(np.abs(value.numpy()) < significant)))

    def _sizes(self, weights: NDArray[Any], layout: Layout) -> NDArray[Any]:
        """The size to which a change of each element is compared: a new array (numel,); `weights` are magnitudes."""
        sizes: NDArray[Any] = np.maximum(weights, self.floor)
        if self.share:
            ends = np.cumsum([prod(shape) for shape in layout.shapes])
            for part, own in zip(np.split(sizes, ends[:-1]), np.split(weights, ends[:-1]), strict=True):
                np.maximum(part, self.share * own.mean() if len(own) else 0.0, out=part)
        return sizes


EXAMPLES = (Relative(0.5, floor=0.1), Relative(0), Relative(0.5, decay=0.0, share=1.0))
