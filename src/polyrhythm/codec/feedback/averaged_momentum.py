"""Send each worker's next value of a momentum that all workers share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.codec.identity import Identity
from polyrhythm.core.protocols.capability import Capability
from polyrhythm.core.protocols.codec import Aggregated, Aggregation, Codec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide, under, within
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class AveragedMomentum:
    """Send the first `warmup` values as they are; then encode β m + (1 - β) g by `inner`, whose mean becomes m (Tang et al., 2021, alg. 1).

    m is the mean momentum, the same at all workers; the merge must know that from step `warmup` + 1 on it is given m and not a mean of
    gradients, as OuterOptimizer(FrozenAdam(warmup)) does. State: "rounds", "momentum" (numel,), and "inner/…".
    """

    beta: float
    warmup: int
    inner: Codec

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1 or self.warmup < 1:
            raise CompositionError(
                f"AveragedMomentum(beta={self.beta}, warmup={self.warmup}) has no momentum to begin with: give a beta of 0 or more, below "
                "1, and a warm-up of at least 1 step."
            )

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, for collectives only: all workers must end with the same momentum."""
        inner = self.inner.traits
        together = inner.requires | {Capability.COLLECTIVES}
        return replace(inner, requires=together, transforms=True, verbatim=False, recurs=inner.recurs.after(self.warmup))

    def initial(self, layout: Layout) -> State:
        beginning = {"rounds": torch.zeros((), dtype=torch.int64), "momentum": torch.zeros(layout.numel)}
        return {**beginning, **under("inner", self.inner.initial(layout))}

    def aggregate(self, value: Tensor, layout: Layout, state: State, context: ExchangeContext) -> Aggregation:
        """One all-reduce during the warm-up; later the inner codec's aggregation of the momentum."""
        inner, momentum = divide(state, ["inner"])["inner"], self.beta * state["momentum"].to(value)
        if int(state["rounds"]) < self.warmup:
            aggregated = yield from Identity().aggregate(value, layout, {}, context)
            momentum = momentum + (1 - self.beta) * (aggregated.total / context.group.size)
        else:
            aggregated = yield from self.inner.aggregate(momentum + (1 - self.beta) * value, layout, inner, context)
            inner, momentum = aggregated.state, aggregated.total / context.group.size
        following = {"rounds": state["rounds"] + 1, "momentum": momentum, **under("inner", inner)}
        return Aggregated(aggregated.total, aggregated.sent, following)

    def residual(self, state: State, layout: Layout) -> Tensor:
        return self.inner.residual(divide(state, ["inner"])["inner"], layout)

    def joined(self, state: State, layout: Layout) -> State:
        return within("inner", state, lambda inner: self.inner.joined(inner, layout))

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return within("inner", state, lambda inner: self.inner.inherit(inner, residual, layout))
