"""Send only the largest elements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from polyrhythm.codec.kernels.kernels import bound_of_largest, not_below
from polyrhythm.codec.sparse.sparse import ChosenElements, check_share, share
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout


@dataclass(frozen=True, slots=True)
@checked
class TopK(ChosenElements):
    """The ⌈ratio · n⌉ elements of largest magnitude, each as an int32 index and its value (Aji and Heafield, 2017).

    Among equals the first are taken. Elements that are not sent are lost: wrap it, ErrorFeedback(TopK(0.01)).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, lossy=True)

    ratio: float

    def __post_init__(self) -> None:
        check_share("TopK", self.ratio)

    def choose(self, value: Tensor, layout: Layout, context: ExchangeContext) -> Tensor:
        return _largest(value, share(self.ratio, value.numel()))


def _largest(value: Tensor, count: int) -> Tensor:
    """The indices (count,) of the elements of largest magnitude, in increasing order; NaN counts as largest."""
    if count == value.numel():
        return torch.arange(count)
    bound = bound_of_largest(value, count)
    indices = value.isnan().nonzero().view(-1) if math.isnan(bound) else not_below(value, bound)
    if surplus := len(indices) - count:
        equal = (~(value.index_select(0, indices).abs() > bound)).nonzero().view(-1)
        indices = torch.from_numpy(np.delete(indices.numpy(), equal[-surplus:].numpy()))
    return indices


EXAMPLES = (TopK(0.1), TopK(1.0))
