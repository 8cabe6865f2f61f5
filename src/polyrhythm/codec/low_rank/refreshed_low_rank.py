"""Send matrices as products of two thin ones, whose span is recomputed from time to time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polyrhythm.codec.low_rank.low_rank import LowRank
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, WithoutResidual
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.recurrence import Recurrence
from polyrhythm.core.protocols.requests import AllReduceRequest
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class RefreshedLowRank(WithoutResidual):
    """LowRank whose projection becomes, every `period` values, the leading right singular vectors of the sum (PowerSGD+; Xie et al., 2025).

    The power iteration alone can stay in a span that the gradient is orthogonal to, and then never converges; a singular value
    decomposition leaves it. In such a round (the first is one) the value is sent as it is, in one reduction, and every worker decomposes
    the sum. That all of it is sent then is our reading: the decomposition needs the whole sum anyway. State: "rounds", and that of LowRank.
    """

    rank: int
    period: int

    def __post_init__(self) -> None:
        self._inner()
        if self.period < 1:
            raise CompositionError(f"RefreshedLowRank(period={self.period}) never begins: period counts values, so give 1 or more.")

    @property
    def traits(self) -> CodecTraits:
        """Lossy, for collectives only; it refreshes every `period` values."""
        return CodecTraits(DIFFERENCES, frozenset({Capability.COLLECTIVES}), lossy=True, recurs=Recurrence(period=self.period))

    def initial(self, layout: Layout) -> State:
        return {"rounds": torch.zeros((), dtype=torch.int64), **self._inner().initial(layout)}

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """One all-reduce of everything in a refresh round; otherwise the aggregation of LowRank."""
        rounds, inner = state["rounds"], {name: tensor for name, tensor in state.items() if name != "rounds"}
        if int(rounds) % self.period:
            aggregated = yield from self._inner().aggregate(value, layout, inner, context)
            return Aggregated(aggregated.total, aggregated.sent, {"rounds": rounds + 1, **aggregated.state})
        total: Tensor = yield AllReduceRequest(value)
        sums = layout.named(total)
        for name, shape in self._inner().matrices(layout):
            if sums[name].isfinite().all():  # others have no decomposition, and are reported when the optimizer steps
                inner[f"q/{name}"] = (
                    torch.linalg.svd(sums[name].reshape(shape), full_matrices=False)
                    .Vh[: self.rank]
                    .clone(memory_format=torch.contiguous_format)
                )
        return Aggregated(total, value, {"rounds": rounds + 1, **inner})

    def _inner(self) -> LowRank:
        return LowRank(self.rank)
