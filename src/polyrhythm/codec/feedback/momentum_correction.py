"""Momentum correction: values that were not sent keep the momentum that they would have had."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.codec.feedback.feedback import check_feedback
from polyrhythm.codec.wrappers.wrapper import InnerStep, WrapperCodec
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide, under, within, zeros
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class MomentumCorrection(WrapperCodec):
    """u ← m u + g; v ← v + u; `inner` encodes v; where it sends an element, v loses it and u becomes zero (Lin et al., 2018, section 3).

    Momentum is taken before values are accumulated (section 3.2), and is reset where a value is sent, so that stale momentum does not
    carry an element the wrong way (momentum factor masking, section 3.3). The optimizer that steps on the sum must then have no
    momentum. With `momentum` 0 it is ErrorFeedback(inner). State: "momentum" (numel,), "residual" (numel,), and "inner/…".
    """

    inner: Codec
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise CompositionError(f"MomentumCorrection(momentum={self.momentum}) would not converge: give 0 or more, below 1.")
        check_feedback("MomentumCorrection", self.inner)

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, not lossy: `transforms` and `keeps`."""
        return replace(self.inner.traits, lossy=False, transforms=True, keeps=True)

    def initial(self, layout: Layout) -> State:
        """A momentum and a residual of zeros."""
        zeros = {name: torch.zeros(layout.numel) for name in ("momentum", "residual")}
        return {**zeros, **under("inner", self.inner.initial(layout))}

    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        # u and v as in the paper's algorithm 4
        u = self.momentum * state["momentum"].to(value) + value
        v = state["residual"].to(value) + u
        before = divide(state, ["inner"])["inner"]
        return InnerStep(v, before, lambda sent, inner: {"momentum": u * (sent == 0), "residual": v - sent, **under("inner", inner)})

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The accumulated values that were not sent."""
        return state["residual"]

    def joined(self, state: State, layout: Layout) -> State:
        return within("inner", {**state, **zeros(state, "momentum", "residual")}, lambda inner: self.inner.joined(inner, layout))

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return {**state, "residual": state["residual"] + residual}
