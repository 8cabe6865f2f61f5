"""The groups that workers form under an exchange in levels. `Hierarchical` asks for them once the workers' places are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from polyrhythm.core.kernel.location import Location


class Groups(Protocol):
    """A rule that divides workers into groups. Settings are frozen."""

    def divide(self, locations: Sequence[Location]) -> list[list[int]]:
        """The ranks of each group, in order; every rank in one of them. Raises CompositionError for workers that it cannot divide."""
