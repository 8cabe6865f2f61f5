"""Send each worker's momentum of the values in place of the values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from polyrhythm.codec.wrappers.wrapper import InnerStep, WrapperCodec
from polyrhythm.core.protocols.codec import Codec
from polyrhythm.core.protocols.context import ExchangeContext
from polyrhythm.core.protocols.nested import divide, under, within
from polyrhythm.core.protocols.traits import CodecTraits
from polyrhythm.core.settings import checked
from polyrhythm.core.tensors import NO_GRADIENT, Layout, State
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class LocalMomentum(WrapperCodec):
    """m ← β m + (1 - β) g at each worker, and m is what `inner` encodes (Signum; Bernstein et al., 2018, algorithm 2).

    State: "momentum" (numel,), and "inner/…".
    """

    beta: float
    inner: Codec

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise CompositionError(f"LocalMomentum(beta={self.beta}) forgets nothing: give 0 (no momentum) or more, below 1.")

    @property
    def traits(self) -> CodecTraits:
        """The inner codec's traits, with `transforms`: the values that it encodes are not those that were given."""
        return replace(self.inner.traits, transforms=True, verbatim=False)

    def initial(self, layout: Layout) -> State:
        """No momentum yet: NO_GRADIENT, which tensors that never get a gradient keep."""
        return {"momentum": torch.full((layout.numel,), NO_GRADIENT), **under("inner", self.inner.initial(layout))}

    def inside(self, value: Tensor, state: State, context: ExchangeContext) -> InnerStep:
        momentum = self.beta * state["momentum"].to(value) + (1 - self.beta) * value
        before = divide(state, ["inner"])["inner"]
        return InnerStep(momentum, before, lambda sent, inner: {"momentum": momentum, **under("inner", inner)})

    def residual(self, state: State, layout: Layout) -> Tensor:
        return self.inner.residual(divide(state, ["inner"])["inner"], layout)

    def joined(self, state: State, layout: Layout) -> State:
        """No momentum yet, and the inner codec's state."""
        fresh = {**state, "momentum": torch.full_like(state["momentum"], NO_GRADIENT)}
        return within("inner", fresh, lambda inner: self.inner.joined(inner, layout))

    def inherit(self, state: State, residual: Tensor, layout: Layout) -> State:
        return within("inner", state, lambda inner: self.inner.inherit(inner, residual, layout))
