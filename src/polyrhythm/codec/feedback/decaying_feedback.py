"""Error feedback with decay: values that were not sent are added to the next ones, and fade."""

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
class DecayingFeedback(WrapperCodec):
    """m ← β m + g; `inner` encodes m; m loses what it sends (decoupled momentum; Peng, Quesnelle, Kingma, 2024, algorithm 1).

    ErrorFeedback whose residual is multiplied by `decay` at every value: a momentum, of which only the fast components are sent.
    A part of 1 - `decay` of the residual is lost each time. State: "momentum" (numel,), and "inner/…".
    """

    inner: Codec
    decay: float = 0.999

    def __post_init__(self) -> None:
        check_feedback("DecayingFeedback", self.inner)
        if not 0 <= self.decay < 1:
            raise CompositionError(f"DecayingFeedback(decay={self.decay}) does not decay: give 0 or more, below 1, or use ErrorFeedback.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, not lossy: values are kept until they are sent or have faded."""
        return replace(self.inner.traits, lossy=False, transforms=True, verbatim=False, keeps=True)

    def initial(self, layout: Layout) -> State:
        return {"momentum": torch.zeros(layout.numel), **under("inner", self.inner.initial(layout))}

    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        momentum = self.decay * state["momentum"].to(value) + value
        before = divide(state, ["inner"])["inner"]
        return InnerStep(momentum, before, lambda sent, inner: {"momentum": momentum - sent, **under("inner", inner)})

    def residual(self, state: State, layout: Layout) -> Tensor:
        """The momentum: the sum of values that were neither sent nor have faded."""
        return state["momentum"]

    def joined(self, state: State, layout: Layout) -> State:
        return within("inner", {**state, **zeros(state, "momentum")}, lambda inner: self.inner.joined(inner, layout))

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return {**state, "momentum": state["momentum"] + residual}
