"""What is spoken about, and in which pattern: the two things on which pieces must agree."""

from __future__ import annotations

from enum import Enum


class Payload(Enum):
    """What a worker says when it speaks."""

    GRADIENT = "gradients"
    """The gradient of its batch; whoever holds the weights then takes the step."""
    UPDATE = "updates"
    """What its own optimizer did to the weights since it last spoke, with the sign of a gradient (before minus after)."""
    WEIGHTS = "weights"
    """Its weights as they are."""


class Pattern(Enum):
    """How workers speak with each other."""

    COLLECTIVE = "collectively"
    """Everybody asks the same question and gets the same response."""
    SERVED = "with a server"
    """One-sided: to a server that holds the weights; no other worker need be waiting."""
    PEERS = "with all peers"
    """One-sided: to every other worker, who takes it in when it next looks."""
    NEIGHBOURS = "with neighbours"
    """With the few workers that a graph names for this step."""


EVERY_PAYLOAD = frozenset(Payload)
EVERY_PATTERN = frozenset(Pattern)
DIFFERENCES = frozenset({Payload.GRADIENT, Payload.UPDATE})
