"""Send matrices as products of two thin ones, whose numbers have few bits."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from polyrhythm.codec.few_bits.e3m0 import E3M0
from polyrhythm.codec.low_rank.low_rank import LowRank
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec, WithoutResidual
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import CollectiveRequest
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class QuantizedLowRank(WithoutResidual):
    """LowRank whose factors, and what is too small for any, are sent by `factors`, which keeps nothing (Qi et al., 2025, "DiLoCoX").

    The paper has integers of four bits where `E3M0` has powers of two, and lowers the rank as training goes on, which is left out. Worker i
    sends P̂ Q̃_iᵀ, where Q̃_i is what all decode from its Q_i: all together send the total. State: that of LowRank.
    Wrap it: ErrorFeedback(QuantizedLowRank(2)).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, frozenset({Capability.COLLECTIVES}), lossy=True)

    rank: int
    factors: Codec = field(default_factory=E3M0)

    def __post_init__(self) -> None:
        self._inner()
        inner = self.factors.traits
        if inner.keeps or inner.recodes or inner.transforms or not inner.makes_packets:
            raise CompositionError(
                f"QuantizedLowRank(factors={self.factors}) would have to keep a state for factors that are others in each exchange: give a "
                "codec of few bits as it is, such as E3M0(), and wrap the whole in ErrorFeedback."
            )

    def initial(self, layout: Layout) -> State:
        return self._inner().initial(layout)

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """The sums of the P = M Q and of vectors, orthonormal columns, then the sums of the Q = Mᵀ P̂."""
        # M, P and Q as in LowRank, P and Q transposed
        shapes, values = dict(self._inner().matrices(layout)), layout.named(value)
        Ms = {name: values[name].view(shape) for name, shape in shapes.items()}
        first = {name: state[f"q/{name}"].to(value) @ M.T for name, M in Ms.items()}
        first |= {name: values[name] for name in layout.names if name not in shapes}
        summed, said = yield from self._sums(first, context)
        Ps = {name: torch.linalg.qr(summed[name].T).Q for name in shapes}
        Qs = {name: Ps[name].T @ M for name, M in Ms.items()}
        sums, sent = (yield from self._sums(Qs, context)) if Qs else ({}, {})
        own, total = torch.empty_like(value), torch.empty_like(value)
        mine, ours = layout.named(own), layout.named(total)
        for name in layout.names:
            mine[name].copy_((Ps[name] @ sent[name] if name in shapes else said[name]).view(mine[name].shape))
            ours[name].copy_((Ps[name] @ sums[name] if name in shapes else summed[name]).view(ours[name].shape))
        return Aggregated(total, own, {f"q/{name}": sums[name].clone() for name in shapes})

    def _sums(
        self, tensors: Mapping[str, Tensor], context: ExchangeContext
    ) -> Generator[CollectiveRequest, Any, tuple[dict[str, Tensor], dict[str, Tensor]]]:
        """The sums of tensors over all workers, and what this one has sent of each."""
        layout = Layout.of(tensors.items())
        flat = torch.cat([each.reshape(-1) for each in tensors.values()]) if tensors else torch.empty(0)
        done = yield from self.factors.aggregate(flat, layout, self.factors.initial(layout), context)
        total, sent = layout.named(done.total), layout.named(done.sent)
        return {name: total[name].view(each.shape) for name, each in tensors.items()}, {
            name: sent[name].view(each.shape) for name, each in tensors.items()
        }

    def _inner(self) -> LowRank:
        return LowRank(self.rank)


EXAMPLES = (QuantizedLowRank(1),)
