"""What collectives cost by formula: rounds and bytes. Laws hold the messages of each algorithm to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Of P ranks that begin together, each with a tensor of M bytes: `rounds` of P and M are the latencies that pass until the last has
    ended, `nbytes` what all send together, without headers and notices."""

    rounds: Callable[[int, int], int]
    nbytes: Callable[[int, int], float]


Costs = Mapping[str, Cost]
"""By collective; "send" is one message."""


def doublings(ranks: int) -> int:
    """log2 P, rounded up."""
    return (ranks - 1).bit_length()


def depth(ranks: int) -> int:
    """The most messages, one after another, down a binomial tree."""
    return max(place.bit_count() for place in range(ranks))
