"""Send every element in a half-precision type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.kernels.kernels import rounded
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Encoded, WithoutResidual
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllReduceRequest, Packet
from polyrhythm.core.protocols.traits import EVERY_PAYLOAD, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Cast(WithoutResidual):
    """Every element rounded to torch.float16 or torch.bfloat16 (Sergeev and Del Balso, 2018, Horovod's `Compression.fp16`).

    Collective sums are made in the half type, as Horovod makes them: their rounding errors are lost too, and are in no residual.
    A magnitude above 65,504, in a value or in a sum, becomes infinite in float16; bfloat16 has the range of float32.
    """

    traits: ClassVar = CodecTraits(EVERY_PAYLOAD, frozenset({Capability.VALUES}), lossy=True)
    width: ClassVar = 2
    """The rounded values, and an empty tensor of their original type."""

    dtype: torch.dtype

    def __post_init__(self) -> None:
        if self.dtype not in (torch.float16, torch.bfloat16):
            raise CompositionError(f"Cast(dtype={self.dtype!r}) is not half of anything: give torch.float16 or torch.bfloat16.")

    def initial(self, layout: Layout) -> State:
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        small, again = rounded(value, self.dtype)
        return Encoded((small, value.new_empty(0)), again, state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The rounded values, in their original type."""
        rounded, like = packet
        return rounded.to(like.dtype)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """One all-reduce in the half type."""
        rounded = value.to(self.dtype)
        total: Tensor = yield AllReduceRequest(rounded)
        return Aggregated(total.to(value.dtype), rounded.to(value.dtype), state)


EXAMPLES = (Cast(torch.float16), Cast(torch.bfloat16))
