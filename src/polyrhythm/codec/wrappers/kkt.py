"""The KKT filter of l1 penalties: gradients that would leave a weight at zero are not sent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.codec.wrappers.filter import FilterCodec
from polyrhythm.core.protocols.codec import PacketCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import CodecTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class KKT(FilterCodec):
    """Leave out the gradient of a weight that is zero where it is at most λ (1 - `delta`), and encode the rest by `inner`.

    With an l1 penalty of λ, `penalty`, such a weight is optimal at zero (the Karush-Kuhn-Tucker conditions), and a proximal step leaves it
    there (Li et al., OSDI 2014, section 5.1). A worker judges by its own gradient, although the mean over all workers decides: hence
    `delta`; and every `retest` steps all is sent, so that a weight that has become active is found. Gradients left out are lost; their
    number, and the sum of their magnitudes, are in the state under "dropped" (2,), as float64. It is for gradients that `ProximalSGD`
    merges.
    """

    inner: PacketCodec
    penalty: float
    delta: float = 0.1
    retest: int = 20

    def __post_init__(self) -> None:
        if not (0 <= self.penalty < math.inf and 0 <= self.delta <= 1 and self.retest >= 1):
            raise CompositionError(
                f"{self!r} cannot judge: give a penalty of at least 0, a delta from 0 to 1, and a number of steps of 1 or more after which "
                "all is sent."
            )

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, for gradients and rows; lossy."""
        inner = self.inner.traits
        payloads = inner.payloads & {Payload.GRADIENT, Payload.ROWS}
        return replace(inner, payloads=payloads, lossy=True, unbiased=False, verbatim=False)

    def kept(self, value: Tensor, context: ExchangeContext) -> Tensor:
        if not self.penalty or context.clock % self.retest == 0:
            return value
        return torch.where((context.weights == 0) & (value.abs() <= self.penalty * (1 - self.delta)), value.new_zeros(()), value)
