"""Send the vector in ranges, one in each exchange, each with the values accumulated since it was last sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from polyrhythm.core.protocols.codec import Aggregation, Encoded, gather_and_sum
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.controller import ControlledSetting
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import NO_GRADIENT, Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class Ranges:
    """Send one of `count` equal ranges in each exchange, in turn, with the sum of the last `count` exchanges' values (Ako; SoCC 2016).

    In a cycle through the vector every element of every value is sent once. A controller may change the number of ranges: the rest of
    a cycle is then divided anew, in proportion, so that this stays true. Elements without a gradient stay NO_GRADIENT.
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, keeps=True, takes=frozenset({ControlledSetting.RANGES}), ranged=True)
    width: ClassVar = 2
    """The first index of the range, and its elements."""

    count: int = 4

    def __post_init__(self) -> None:
        if self.count < 1:
            raise CompositionError(f"Ranges(count={self.count}) would send nothing: give 1 range, which is the whole vector, or more.")

    def initial(self, layout: Layout) -> State:
        """Nothing has accumulated, and a cycle starts."""
        return {"residual": torch.full((layout.numel,), NO_GRADIENT), "place": torch.zeros(3, dtype=torch.int64)}

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """The next range of the cycle."""
        accrued = state["residual"] + value
        begin, left, count = state["place"].tolist()
        wanted = max(1, round(context.controls.value(ControlledSetting.RANGES, self.count, context.receiver)))
        if left == 0:
            begin, left = 0, wanted
        elif wanted != count:
            left = max(1, round((layout.numel - begin) / max(1, layout.numel) * wanted))
        end = begin + -((begin - layout.numel) // left)
        sent = torch.full_like(accrued, NO_GRADIENT)
        sent[begin:end] = accrued[begin:end]
        packet = (torch.tensor([begin]), accrued[begin:end].clone())
        accrued[begin:end] = NO_GRADIENT
        return Encoded(packet, sent, {"residual": accrued, "place": torch.tensor([end, left - 1, wanted])})

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The elements of the range, and NO_GRADIENT elsewhere."""
        begin, values = int(packet[0]), packet[1]
        value = torch.full((layout.numel,), NO_GRADIENT, dtype=values.dtype)
        value[begin : begin + values.numel()] = values
        return value

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The packets of all workers, decoded and summed."""
        return gather_and_sum(self, value, layout, state, context)

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The accumulated values that were not sent yet."""
        return state["residual"]

    def joined(self, state: State, layout: Layout) -> State:
        """Nothing has accumulated: each worker has a cycle."""
        return self.initial(layout)

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return {**state, "residual": state["residual"] + residual}


EXAMPLES = (Ranges(3),)
