"""Linear layers whose gradients cost less traffic as factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyrhythm.core.protocols.selection import ParameterInfo
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError
from polyrhythm.parameters.linear_layers import linear_shape


@dataclass(frozen=True, slots=True)
@checked
class CheaperAsFactors:
    """Weight and bias of each nn.Linear, of m outputs and n inputs, for which 2 K (P - 1) (m + n) <= 2 m n (P + S - 2) / S (Poseidon).

    That is algorithm 1 of Zhang et al. (ATC 2017). The left side is the traffic of a worker's machine if the factors of a `batch` of K
    samples are sent to all P workers; the right side, if the gradient is sent to S `servers`, which share the workers' machines, and the
    weights come back. In
    sequences each place counts as a sample. Both are equal at K = m n (P + S - 2) / (S (P - 1) (m + n)), which is 512 for a layer of 4096
    by 4096 and P = S = 8. One worker alone sends nothing either way. Subclasses of nn.Linear may use their weight otherwise, and are left
    out.
    """

    may_be_empty: ClassVar = False

    batch: int
    servers: int = 1

    def __post_init__(self) -> None:
        if self.batch < 1 or self.servers < 1:
            raise CompositionError(f"{self} compares nothing: give a batch of 1 sample or more, and 1 server or more.")

    def takes(self, candidate: ParameterInfo) -> bool:
        """True for weight and bias of such a layer."""
        if (shape := linear_shape(candidate)) is None:
            return False
        (outs, ins), others = shape, candidate.workers - 1
        # both sides times S / 2, so that they are whole numbers
        return self.servers * self.batch * others * (outs + ins) <= outs * ins * (others + self.servers - 1)


EXAMPLES = (CheaperAsFactors(2),)
