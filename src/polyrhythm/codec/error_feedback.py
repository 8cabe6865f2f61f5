"""What a codec leaves unsaid is said next time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyrhythm.errors import CompositionError
from polyrhythm.pieces.codec import Codec, Conversation, Encoded, Speaker, Told
from polyrhythm.pieces.questions import Packet
from polyrhythm.pieces.terms import Manner, Subject
from polyrhythm.tensors import Layout, State

_RESIDUAL = "residual"


@dataclass(frozen=True, slots=True)
class ErrorFeedback:
    """Add what `inner` left unsaid to the next value (Seide et al., 2014; Karimireddy et al., 2019).

    The residual lies in the state under "residual" (numel,), beside the inner codec's own state. It has the type of the values.
    """

    inner: Codec

    def __post_init__(self) -> None:
        if not self.inner.forgets:
            raise CompositionError(
                f"ErrorFeedback({self.inner}) has nothing to feed back: {type(self.inner).__name__} loses nothing. Use it bare."
            )

    @property
    def carries(self) -> frozenset[Subject]:
        """Differences that the inner codec carries: a residual of weights has no meaning."""
        return self.inner.carries - {Subject.WEIGHTS}

    @property
    def manners(self) -> frozenset[Manner]:
        """As the inner codec."""
        return self.inner.manners

    @property
    def forgets(self) -> bool:
        """Nothing is lost."""
        return False

    @property
    def verbatim(self) -> bool:
        """What is owed is added first."""
        return False

    @property
    def width(self) -> int:
        """As the inner codec."""
        return self.inner.width

    def initial(self, layout: Layout) -> State:
        """No residual yet."""
        inner = self.inner.initial(layout)
        return {**inner, _RESIDUAL: torch.zeros(layout.numel)}

    def encode(self, value: Tensor, layout: Layout, state: State, draw: np.random.Generator) -> Encoded:
        """The inner codec's words for value + residual."""
        asked = value + state[_RESIDUAL].to(value)
        encoded = self.inner.encode(asked, layout, state, draw)
        return Encoded(encoded.packet, encoded.said, {**encoded.state, _RESIDUAL: asked - encoded.said})

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """As the inner codec."""
        return self.inner.decode(packet, layout)

    def converse(self, value: Tensor, layout: Layout, state: State, speaker: Speaker) -> Conversation:
        """The inner codec's conversation about value + residual."""
        asked = value + state[_RESIDUAL].to(value)
        told = yield from self.inner.converse(asked, layout, state, speaker)
        return Told(told.total, told.said, {**told.state, _RESIDUAL: asked - told.said})

    def owed(self, state: State, layout: Layout) -> Tensor:
        """The residual."""
        return state[_RESIDUAL]
