"""A filter that skips elements at random."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from polyrhythm.codec.wrappers.filter import FilterCodec
from polyrhythm.core.protocols.codec import PacketCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class RandomSkip(FilterCodec):
    """Skip each element with `probability`, and encode the rest by `inner` (Li et al., OSDI 2014, section 5.1).

    The rest is not scaled, so that the sum is smaller on average. Skipped elements are lost: their number, and the sum of their magnitudes,
    are in the state under "dropped" (2,), as float64. `ErrorFeedback(RandomSkip(…))` keeps them for later instead, and counts them
    as well.
    """

    inner: PacketCodec
    probability: float

    def __post_init__(self) -> None:
        if not 0 <= self.probability < 1:
            raise CompositionError(f"{self!r} sends nothing, or is no filter: give a probability from 0 to below 1.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, for gradients and updates; lossy."""
        inner = self.inner.traits
        return replace(inner, payloads=inner.payloads & DIFFERENCES, lossy=True, unbiased=False, verbatim=False)

    def kept(self, value: Tensor, context: ExchangeContext) -> Tensor:
        skipped = torch.from_numpy(context.draw.random(value.numel(), dtype=np.float32) < self.probability)
        return torch.where(skipped, value.new_zeros(()), value)
