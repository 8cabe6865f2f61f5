"""Error feedback with a clipped residual: values that were not sent are added to the next ones, up to a few quanta."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from polyrhythm.codec.feedback.feedback import check_feedback
from polyrhythm.codec.wrappers.wrapper import InnerStep, WrapperCodec
from polyrhythm.core.protocols.codec import PacketCodec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import zeros
from polyrhythm.core.protocols.traits import CodecTraits, Payload
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import Layout, State
from polyrhythm.errors import CompositionError

_RESIDUAL, _ROUNDS, _CLIPPED = "residual", "rounds", "clipped"


@runtime_checkable
class QuantumCodec(PacketCodec, Protocol):
    """A codec that sends 0 or ± one quantum for each element."""

    def quantum(self, state: State) -> float:
        """The quantum with which the next value is encoded."""


@dataclass(frozen=True, slots=True)
@checked
class ClippedFeedback(WrapperCodec):
    """Error feedback whose residual is clipped, every `every` values, to ± `quanta` times the inner codec's quantum.

    Deeplearning4j's ResidualClippingPostProcessor (2018), with its 5 and 5: a codec that sends one quantum at a time may
    build up a residual of many quanta, which is stale when it is sent. What is clipped is lost, and counted: the state has the
    sum of its magnitudes under "clipped", as a float64, next to "residual" (numel,), "rounds", and the inner codec's own state.
    """

    inner: QuantumCodec
    quanta: float = 5.0
    every: int = 5

    def __post_init__(self) -> None:
        check_feedback("ClippedFeedback", self.inner)
        if not isinstance(self.inner, QuantumCodec):  # no choice between pieces: enforces the annotation without a type checker
            raise CompositionError(
                f"ClippedFeedback({self.inner}) has no quantum to count in: {type(self.inner).__name__} sends values of many sizes. Give "
                "it Threshold, AdaptiveThreshold or TwoBit, or use ErrorFeedback."
            )
        if not 0 < self.quanta < math.inf:
            raise CompositionError(f"ClippedFeedback(quanta={self.quanta}) keeps nothing, or everything: give a number above 0.")
        if self.every < 1:
            raise CompositionError(f"ClippedFeedback(every={self.every}) never clips: give 1 or more, or use ErrorFeedback.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, lossy; without weights, of which a residual has no meaning."""
        inner = self.inner.traits
        return replace(inner, payloads=inner.payloads - {Payload.WEIGHTS, Payload.NOTHING}, unbiased=False, keeps=True)

    def initial(self, layout: Layout) -> State:
        """A residual of zeros, and nothing clipped."""
        return {
            **self.inner.initial(layout),
            _RESIDUAL: torch.zeros(layout.numel),
            _ROUNDS: torch.zeros((), dtype=torch.int64),
            _CLIPPED: torch.zeros((), dtype=torch.float64),
        }

    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        given = value + state[_RESIDUAL].to(value)
        return InnerStep(given, state, lambda sent, inner: self._next(state, inner, given - sent))

    def residual(self, state: State, layout: Layout) -> Tensor:
        return state[_RESIDUAL]

    def joined(self, state: State, layout: Layout) -> State:
        """The inner codec's; nothing is kept, counted or clipped yet."""
        return {**self.inner.joined(state, layout), **zeros(state, _RESIDUAL, _ROUNDS, _CLIPPED)}

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return {**state, _RESIDUAL: state[_RESIDUAL] + residual}

    def _next(self, state: State, inner: State, left: Tensor) -> State:
        rounds, clipped = state[_ROUNDS] + 1, state[_CLIPPED]
        if int(rounds) % self.every == 0:
            bound = self.quanta * self.inner.quantum(state)
            kept = left.clamp(-bound, bound)
            clipped = clipped + (left - kept).abs().sum(dtype=torch.float64)
            left = kept
        return {**inner, _RESIDUAL: left, _ROUNDS: rounds, _CLIPPED: clipped}
