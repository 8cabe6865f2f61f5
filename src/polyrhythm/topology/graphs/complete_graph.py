"""The complete graph: everyone exchanges with everyone."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.kernel.group import Group


@dataclass(frozen=True, slots=True)
class CompleteGraph:
    """All others, at every step: what a random peer is drawn from (gossiping SGD; Jin et al., 2016)."""

    def check(self, workers: int) -> None:
        """Accept any number of workers."""

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All other ranks, both ways."""
        both = (*range(group.rank), *range(group.rank + 1, group.size))
        return both, both
