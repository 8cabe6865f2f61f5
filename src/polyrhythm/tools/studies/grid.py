"""The protocol of a study's grid: its cells, which of them are refused, and how one of them is measured."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Protocol

from polyrhythm.errors import CompositionError

Level = str | int | float | bool
Cell = Mapping[str, Level]
"""A level of each factor, by the name of the factor."""


class StudyGrid(Protocol):
    """One table of a study file, as a frozen struct of settings."""

    @property
    def about(self) -> str:
        """What is measured, and where: a sentence."""

    @property
    def units(self) -> Mapping[str, str]:
        """The units of the quantities whose names do not say theirs."""

    def check(self) -> None:
        """Raise PolyrhythmErrors for names that do not exist, and for what cannot be composed."""

    def cells(self) -> list[dict[str, Level]]:
        """All cells, in the order of the factors."""

    def refused(self, cell: Cell) -> str:
        """Why a cell is not measured; empty for one that is."""

    def decisive(self, cell: Cell) -> Mapping[str, Any]:
        """What decides the outcome of a cell, as JSON has it."""

    def measure(self, cell: Cell, repetition: int) -> Mapping[str, float]:
        """The quantities of one repetition, by name. Raises PolyrhythmErrors."""


def crossed(factors: Mapping[str, Sequence[Level]]) -> list[dict[str, Level]]:
    """Every combination of one level of each factor, the last factor varying fastest.

    Raises CompositionError for a factor without levels, and for one that has a level twice.

    Examples:
        >>> crossed({"workers": [1, 2], "threads": [1]})
        [{'workers': 1, 'threads': 1}, {'workers': 2, 'threads': 1}]
    """
    for name, levels in factors.items():
        if not levels:
            raise CompositionError(f"The factor {name} has no level: give one or more, or leave it out.")
        if len(set(map(repr, levels))) < len(levels):
            raise CompositionError(f"The factor {name} has a level twice ({', '.join(map(str, levels))}): give each once.")
    return [dict(zip(factors, levels, strict=True)) for levels in product(*factors.values())]


def counts(what: str, numbers: Iterable[int]) -> None:
    """Raise CompositionError for a number below 1 of workers, threads or bytes."""
    for number in numbers:
        if number < 1:
            raise CompositionError(f"The level {number} of {what} means nothing: give 1 or more.")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))
