"""Error feedback: values that were not sent are added to the next ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.codec.feedback.feedback import check_feedback
from polyrhythm.codec.wrappers.wrapper import InnerStep, WrapperCodec
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import zeros
from polyrhythm.core.protocols.traits import CodecTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State

_RESIDUAL = "residual"


@dataclass(frozen=True, slots=True)
@checked
class ErrorFeedback(WrapperCodec):
    """Add what `inner` did not send to the next value (Seide et al., 2014; Karimireddy et al., 2019).

    The residual is in the state under "residual" (numel,), next to the inner codec's own state. It has the type of the values.
    """

    inner: Codec

    def __post_init__(self) -> None:
        check_feedback("ErrorFeedback", self.inner)

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, not lossy; without weights, of which a residual has no meaning."""
        inner = self.inner.traits
        payloads = inner.payloads - {Payload.WEIGHTS, Payload.NOTHING}
        return replace(inner, payloads=payloads, lossy=False, unbiased=False, verbatim=False, keeps=True)

    def initial(self, layout: Layout) -> State:
        inner = self.inner.initial(layout)
        return {**inner, _RESIDUAL: torch.zeros(layout.numel)}

    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        given = value + state[_RESIDUAL].to(value)
        return InnerStep(given, state, lambda sent, inner: {**inner, _RESIDUAL: given - sent})

    def residual(self, state: State, layout: Layout) -> Tensor:
        return state[_RESIDUAL]

    def joined(self, state: State, layout: Layout) -> State:
        return {**self.inner.joined(state, layout), **zeros(state, _RESIDUAL)}

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return {**state, _RESIDUAL: state[_RESIDUAL] + residual}
