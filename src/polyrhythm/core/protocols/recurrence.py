"""When what a worker sends comes again. Codecs and topologies declare it, and who times a few steps asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The first `beginning` are otherwise, and then all comes again every `period`: exchanges of a piece, steps of a whole strategy."""

    beginning: int = 0
    period: int = 1

    def after(self, number: int) -> Recurrence:
        """That of a piece which begins only after so many exchanges."""
        return Recurrence(number + self.beginning, self.period)

    def with_(self, other: Recurrence) -> Recurrence:
        """That of both together."""
        return Recurrence(max(self.beginning, other.beginning), lcm(self.period, other.period))


AS_EVER = Recurrence()
"""Every exchange is like every other."""
