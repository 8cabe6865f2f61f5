"""What a codec is: one message in few words, and a conversation in which everybody's values are summed."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from polyrhythm.kernel.group import Group
from polyrhythm.pieces.questions import Gather, Packet, Question
from polyrhythm.pieces.terms import Manner, Subject
from polyrhythm.tensors import Layout, State


@dataclass(frozen=True, slots=True)
class Encoded:
    """One value put into words: the packet, what every receiver will make of it (numel,), and the next state."""

    packet: Packet
    said: Tensor
    state: State


@dataclass(frozen=True, slots=True)
class Told:
    """The end of a conversation: the sum of what all said (numel,), my own part of it (numel,), and the next state."""

    total: Tensor
    said: Tensor
    state: State


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who takes part in a conversation: its group, and its random stream."""

    group: Group
    draw: np.random.Generator


Conversation = Generator[Question, Any, Told]


class Codec(Protocol):
    """How a flat vector (numel,) of some layout is said. Settings are frozen; `state` goes in and comes out.

    Law: what was said plus what is owed equals what was asked, per coordinate, unless `forgets`.
    """

    @property
    def carries(self) -> frozenset[Subject]:
        """What may be said in these words."""

    @property
    def manners(self) -> frozenset[Manner]:
        """How it may be said."""

    @property
    def forgets(self) -> bool:
        """Whether the difference between what was asked and what was said is lost (True), or kept in the state (False)."""

    @property
    def verbatim(self) -> bool:
        """Whether a conversation is one `Reduce` of the value, whose answer is the total, without a state; values then need no copy."""

    @property
    def width(self) -> int:
        """The number of tensors in a packet."""

    def initial(self, layout: Layout) -> State:
        """The state before anything was said."""

    def encode(self, value: Tensor, layout: Layout, state: State, draw: np.random.Generator) -> Encoded:
        """Put `value` into one packet."""

    def decode(self, packet: Packet, layout: Layout) -> Tensor:
        """What a packet says (numel,); every receiver gets the same bits."""

    def converse(self, value: Tensor, layout: Layout, state: State, speaker: Speaker) -> Conversation:
        """Ask whatever it takes to know the sum of everyone's values."""

    def owed(self, state: State, layout: Layout) -> Tensor:
        """What was asked before and is still unsaid (numel,)."""


def gather_and_sum(codec: Codec, value: Tensor, layout: Layout, state: State, speaker: Speaker) -> Conversation:
    """The conversation of a codec that speaks once: everyone's packets, decoded and summed in rank order."""
    encoded = codec.encode(value, layout, state, speaker.draw)
    packets: list[Packet] = yield Gather(encoded.packet)
    total = codec.decode(packets[0], layout)
    for packet in packets[1:]:
        total = total + codec.decode(packet, layout)
    return Told(total, encoded.said, encoded.state)
