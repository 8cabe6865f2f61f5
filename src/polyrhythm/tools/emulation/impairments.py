"""Jitter and loss of packets in addition to those of a `Network`, for all pairs of hosts or for one.

They belong to the lab alone, and predictions leave them out; a network's own jitter is in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from polyrhythm.errors import CompositionError

_WRITTEN = re.compile(r"(?:(\d+):(\d+)=)?([0-9.]+(?:e-?\d+)?)", re.IGNORECASE)


class Amount(msgspec.Struct, frozen=True):
    """A number for every pair of hosts, and those of the ordered `pairs` (from, to, number) that differ."""

    everywhere: float = 0.0
    pairs: list[tuple[int, int, float]] = []

    def between(self, source: int, target: int) -> float:
        """The number for packets from `source` to `target`; the last one given counts."""
        own = [value for a, b, value in self.pairs if (a, b) == (source, target)]
        return own[-1] if own else self.everywhere

    @property
    def some(self) -> bool:
        """True if it is above zero anywhere."""
        return self.everywhere > 0 or any(value > 0 for _, _, value in self.pairs)


class Impairments(msgspec.Struct, frozen=True):
    """`jitter` in seconds, `loss` as a probability a packet; the draws come from `seed`."""

    jitter: Amount = Amount()
    loss: Amount = Amount()
    seed: int = 0

    def __post_init__(self) -> None:
        if not all(0 <= loss < 1 for loss in [self.loss.everywhere, *(value for _, _, value in self.loss.pairs)]):
            raise CompositionError("A loss is a probability, from 0 to less than 1: 0.01 loses one packet of a hundred.")


def amount(option: str, given: Iterable[str], hosts: int, unit: float = 1.0) -> Amount:
    """The numbers given as "0.01" or, from host 0 to host 2 only, as "0:2=0.01", times `unit`.

    Raises `CompositionError` for text that is neither, and for hosts that are not among `hosts`.
    """
    everywhere, pairs = 0.0, []
    for text in given:
        found = _WRITTEN.fullmatch(text.strip())
        if found is None or found[3].count(".") > 1 or found[3] == ".":
            raise CompositionError(f"{option} was given {text!r}: write a number, or FROM:TO=NUMBER for one pair, for example 0:1=2.5.")
        value = float(found[3]) * unit
        if found[1] is None:
            everywhere = value
            continue
        pair = (int(found[1]), int(found[2]))
        if pair[0] == pair[1] or max(pair) >= hosts:
            raise CompositionError(f"{option} was given {text!r}: there is no such pair among hosts 0 to {hosts - 1}.")
        pairs.append((*pair, value))
    return Amount(everywhere, pairs)
