"""What a sum that goes without messages is counted as."""

from __future__ import annotations

from collections.abc import Callable

from polyrhythm.kernel.effects import Reduce, Schedule

Charge = Callable[[int, int], None]
"""Takes bytes and messages."""


class Charges:
    """Worker `rank`'s part of the messages that its sums replace, each told to `charge`."""

    def __init__(self, rank: int, charge: Charge) -> None:
        self._rank = rank
        self._charge = charge
        self._shares: dict[tuple[Schedule, tuple[int, ...], str, int], tuple[int, int]] = {}

    def count(self, effect: Reduce) -> None:
        """Charge for one sum; the first workers have one byte or message more where they cannot be shared out evenly."""
        value, workers = effect.value, effect.workers
        key = (effect.schedule, tuple(value.shape), str(value.dtype), len(effect.topic))
        if key not in self._shares:
            nbytes, messages = effect.schedule.traffic(value, workers, effect.topic)
            rank = self._rank
            self._shares[key] = nbytes // workers + (rank < nbytes % workers), messages // workers + (rank < messages % workers)
        self._charge(*self._shares[key])
