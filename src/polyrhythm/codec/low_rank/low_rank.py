"""Send matrices as products of two thin ones."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor

from polyrhythm.core import rng
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, WithoutResidual
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.requests import AllReduceRequest, CollectiveRequest
from polyrhythm.core.protocols.traits import DIFFERENCES, CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class LowRank(WithoutResidual):
    """PowerSGD: one warm-started step of the power iteration towards the best approximation of `rank` (Vogels et al., 2019, algorithm 1).

    A tensor (out, in, …) counts as a matrix M (out, rest); all matrices share two reductions. Vectors, and matrices whose
    factors would be no smaller than they are, are sent as they are with the first. Worker i sends P̂ Q_iᵀ, so that all together send
    the total P̂ (Σ Q_i)ᵀ; the authors' code charges the total's mean to every worker instead, which has the same sum.
    Columns are made orthonormal by Householder's QR in place of Gram and Schmidt's: the same span, and a zero gradient is no
    special case. Every worker does this itself: totals have equal bits where processors are alike. State: "q/<name>"
    (rank, rest), the last Σ Q_iᵀ, equal at all workers. Wrap it: ErrorFeedback(LowRank(2)).
    """

    traits: ClassVar = CodecTraits(DIFFERENCES, frozenset({Capability.COLLECTIVES}), lossy=True)

    rank: int

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise CompositionError(f"LowRank(rank={self.rank}) leaves no column to send: rank must be at least 1.")

    def initial(self, layout: Layout) -> State:
        """A random Q for each matrix, the same at every worker and in every run."""
        state = {}
        for name, (_, rest) in self.matrices(layout):
            state[f"q/{name}"] = torch.randn(self.rank, rest, generator=rng.generator(0, "powersgd", name))
        return state

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """All-reduce the P = M Q, make their columns orthonormal, then all-reduce the Q = Mᵀ P̂."""
        # M, P, P̂ and Q as in the paper, P and Q transposed: thin matrices multiply from the left seven times as fast
        shapes = dict(self.matrices(layout))
        values = layout.named(value)
        Ms = {name: values[name].view(shape) for name, shape in shapes.items()}
        plain = [name for name in layout.names if name not in shapes]
        first = [state[f"q/{name}"].to(value) @ M.T for name, M in Ms.items()] + [values[name] for name in plain]
        summed = yield from _reduce(first, value)
        Ps = {name: torch.linalg.qr(P.T).Q for name, P in zip(shapes, summed, strict=False)}
        Qs = [Ps[name].T @ M for name, M in Ms.items()]
        sums = (yield from _reduce(Qs, value)) if Qs else []

        sent, total = torch.empty_like(value), torch.empty_like(value)
        mine, ours = layout.named(sent), layout.named(total)
        for name, Q, Q_sum in zip(shapes, Qs, sums, strict=True):
            torch.mm(Ps[name], Q, out=mine[name].view(shapes[name]))
            torch.mm(Ps[name], Q_sum, out=ours[name].view(shapes[name]))
        for name, vector in zip(plain, summed[len(shapes) :], strict=True):
            mine[name].copy_(values[name])
            ours[name].copy_(vector)
        # cloned, as a resumed run has them: the rounding of a product may depend on the alignment of its factors
        return Aggregated(total, sent, {f"q/{name}": Q_sum.clone() for name, Q_sum in zip(shapes, sums, strict=True)})

    def matrices(self, layout: Layout) -> Iterator[tuple[str, tuple[int, int]]]:
        """Names and (rows, rest) of the tensors that are smaller as factors."""
        for name, shape in zip(layout.names, layout.shapes, strict=True):
            rows, rest = (shape[0], prod(shape[1:])) if len(shape) > 1 else (1, prod(shape))
            if self.rank * (rows + rest) < rows * rest:
                yield name, (rows, rest)


def _reduce(tensors: Sequence[Tensor], like: Tensor) -> Generator[CollectiveRequest, Any, list[Tensor]]:
    """The sums of several tensors, by one request."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors]) if tensors else like.new_empty(0)
    total: Tensor = yield AllReduceRequest(flat)
    parts = torch.split(total, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


EXAMPLES = (LowRank(1),)
