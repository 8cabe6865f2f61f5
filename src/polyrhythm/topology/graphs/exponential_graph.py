"""Few neighbours, and a short way to everyone."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.kernel.group import Group


@dataclass(frozen=True, slots=True)
class ExponentialGraph:
    """To those 1, 2, 4, … places further in rank, all of them at every step (static exponential graph; Assran et al., 2019, appendix A).

    One of them at a time is `Dissemination(rotate=False)`.
    """

    def check(self, workers: int) -> None:
        """Accept any number of workers."""

    def neighbours(self, step: int, group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """⌈log2 P⌉ neighbours each way."""
        reaches = [1 << k for k in range((group.size - 1).bit_length())]
        after = tuple((group.rank + reach) % group.size for reach in reaches)
        return after, tuple((group.rank - reach) % group.size for reach in reaches)
