"""Groups of tensors that are reported together, once the last of them is ready.

The ways of agreeing on readiness in this package use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


class Grouping(Protocol):
    """The grouping of tensors; frozen settings."""

    def cut(self, names: Sequence[str]) -> list[list[str]]:
        """The groups of `names`, which come in the order of the layout; each name is in one."""


@dataclass(frozen=True, slots=True)
class Separately:
    """Every tensor by itself."""

    def cut(self, names: Sequence[str]) -> list[list[str]]:
        return [[name] for name in names]


@dataclass(frozen=True, slots=True)
@checked
class Neighbours:
    """`count` tensors that follow one another in the model (the graph-aware grouping of Laanait et al., 2019, section 3.2).

    None of a group is sent before all are there, so that no fragments leave early.
    """

    count: int = 4

    def __post_init__(self) -> None:
        if self.count < 1:
            raise CompositionError(f"Neighbours(count={self.count}) groups nothing: give 1 or more.")

    def cut(self, names: Sequence[str]) -> list[list[str]]:
        """From the first on; the last group may be smaller."""
        return [list(names[start : start + self.count]) for start in range(0, len(names), self.count)]


@dataclass(frozen=True, slots=True)
@checked
class ByPattern:
    """Groups by patterns of names, as ("layers.0.*", "head.*"); what no pattern matches goes by itself (Horovod's `groups`)."""

    patterns: tuple[str, ...]

    def cut(self, names: Sequence[str]) -> list[list[str]]:
        """A name belongs to the first pattern that matches it."""
        groups: dict[str, list[str]] = {}
        for name in names:
            pattern = next((pattern for pattern in self.patterns if fnmatchcase(name, pattern)), "")
            groups.setdefault(pattern or f" {name}", []).append(name)
        return list(groups.values())
