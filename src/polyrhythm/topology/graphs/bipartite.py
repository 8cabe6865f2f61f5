"""Half of the workers ask, and the other half answer."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.kernel.group import Group


@dataclass(frozen=True, slots=True)
class BipartiteGraph:
    """Workers of even rank may send to any of odd rank, at every step (AD-PSGD; Lian et al., 2018, section 3.3).

    In the paper that is what rules out deadlock: an active worker never waits for another active one.
    """

    def check(self, workers: int) -> None:
        """Accept any number of workers."""

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(the odd ranks, none) at an even one, and (none, the even ranks) at an odd one."""
        if group.rank % 2:
            return (), tuple(range(0, group.size, 2))
        return tuple(range(1, group.size, 2)), ()
