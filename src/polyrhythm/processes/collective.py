"""Ways to a sum over all workers that are faster than messages."""

from __future__ import annotations

from typing import Protocol

from polyrhythm.kernel.effects import Adder


class Collective(Adder, Protocol):
    """One worker's part in it; asked in the program's thread, told of losses in the loop's.

    A sum is left to messages at every worker or at none. Raises ConnectionAbortedError if it cannot come.
    """

    def part(self, rank: int, how: str) -> None:
        """The worker `rank` "has ended" or "was lost"."""

    def give_up(self) -> None:
        """Whoever waits for a sum waits no longer."""

    @property
    def moved(self) -> int:
        """A number that changes whenever a sum gets on, at any worker."""
