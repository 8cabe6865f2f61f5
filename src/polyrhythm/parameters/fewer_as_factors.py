"""Linear layers whose gradients have fewer numbers as factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.parameters.linear_layers import linear_shape


@dataclass(frozen=True, slots=True)
@checked
class FewerAsFactors:
    """Weight and bias of each nn.Linear, of m outputs and n inputs, for which K (m + n) < m n for a `batch` of K samples.

    That is what a worker sends to a server either way (Project Adam; Chilimbi et al., 2014). In sequences each place counts as a sample.
    """

    may_be_empty: ClassVar = False

    batch: int

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise CompositionError(f"{self} compares nothing: give a batch of 1 sample or more.")

    def takes(self, candidate: ParameterInfo) -> bool:
        """True for weight and bias of such a layer."""
        shape = linear_shape(candidate)
        return shape is not None and self.batch * sum(shape) < shape[0] * shape[1]


EXAMPLES = (FewerAsFactors(2),)
