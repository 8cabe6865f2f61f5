"""What papers claim beside what is measured here: each reproduction is an experiment with thresholds that were fixed beforehand."""

from __future__ import annotations

from polyrhythm.errors import unknown
from polyrhythm.reproductions.catalogue import (
    one_bit,
)
from polyrhythm.reproductions.protocol import Reproduction

REPRODUCTIONS: dict[str, Reproduction] = {each.name: each for each in (one_bit.REPRODUCTION,)}


def find(name: str) -> Reproduction:
    """The reproduction `name`, or that of the system `name`. Raises UnknownNameError with the nearest name."""
    if name in REPRODUCTIONS:
        return REPRODUCTIONS[name]
    for each in REPRODUCTIONS.values():
        if name in each.systems:
            return each
    raise unknown("reproduction", name, [*REPRODUCTIONS, *(system for each in REPRODUCTIONS.values() for system in each.systems)])
