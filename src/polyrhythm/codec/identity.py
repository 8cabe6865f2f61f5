"""Say everything, as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from polyrhythm.pieces.codec import Conversation, Encoded, Speaker, Told
from polyrhythm.pieces.questions import Packet, Reduce
from polyrhythm.pieces.terms import EVERY_MANNER, EVERY_SUBJECT, Manner, Subject
from polyrhythm.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Identity:
    """Every element in the model's own precision."""

    @property
    def carries(self) -> frozenset[Subject]:
        """Anything."""
        return EVERY_SUBJECT

    @property
    def manners(self) -> frozenset[Manner]:
        """Any."""
        return EVERY_MANNER

    @property
    def forgets(self) -> bool:
        """Nothing is left unsaid."""
        return False

    @property
    def verbatim(self) -> bool:
        """The value itself."""
        return True

    @property
    def width(self) -> int:
        """The values."""
        return 1

    def initial(self, layout: Layout) -> State:
        """Nothing to remember."""
        return {}

    def encode(self, value: Tensor, layout: Layout, state: State, draw: np.random.Generator) -> Encoded:
        """The value itself."""
        return Encoded((value,), value, state)

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """The value itself."""
        return packet[0]

    def converse(self, value: Tensor, layout: Layout, state: State, speaker: Speaker) -> Conversation:
        """One reduction."""
        total: Tensor = yield Reduce(value)
        return Told(total, value, state)

    def owed(self, state: State, layout: Layout) -> Tensor:
        """Nothing."""
        return torch.zeros(layout.numel)
