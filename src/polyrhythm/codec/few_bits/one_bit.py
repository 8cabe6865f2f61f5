"""Send only the sign of each element, and the mean of each sign's elements in each column."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyrhythm.codec.kernels.kernels import bits_not_below, choose, column_sums
from polyrhythm.core.protocols.codec import Encoded, StatelessCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import Packet
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class OneBit(StatelessCodec):
    """One bit an element, and two values a column: the means of its elements below zero and of the others (Seide et al., 2014, section 3).

    The paper's column holds the incoming weights of one output unit. That is a row of torch's (out, in, …) tensors, so that
    a cut between rows (`Layout.split`) cuts no column; a vector or a scalar counts as one column. Biases are better left
    alone, as in the paper: PerTensor(OneBit()). A packet: the bits, eight a byte, the first highest; the means of the columns'
    lower classes, then those of the upper ones, in the type of the values. What is not sent is lost, and training
    diverges: wrap it, Striped(ErrorFeedback(OneBit())).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)
    width: ClassVar = 2
    """Two tensors: the bits, and the means."""

    def encode(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Encoded:
        """A class without elements has mean zero. NaN makes both means of its column NaN, so that receivers see it."""
        lengths = _columns(layout)
        sums, above = column_sums(value, lengths)
        means = sums / torch.cat([torch.from_numpy(lengths) - above, above]).clamp(min=1)
        packet = (bits_not_below(value, 0.0), means)
        return Encoded(packet, self.decode(packet, layout), state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The mean of each element's class."""
        bits, means = packet
        return choose(bits, _columns(layout), means)


@lru_cache(maxsize=4096)
def _columns(layout: Layout) -> NDArray[np.int64]:
    """The length of each column of a layout; empty tensors have none."""
    lengths = [np.zeros(0, dtype=np.int64)]
    for shape in layout.shapes:
        rows = shape[0] if len(shape) > 1 else 1
        if numel := prod(shape):
            lengths.append(np.full(rows, numel // rows, dtype=np.int64))
    return np.concatenate(lengths)
