"""What a sum that goes without messages is counted as."""

from __future__ import annotations

from collections.abc import Callable

import torch

from polyrhythm.kernel.effects import Schedule

Charge = Callable[[int, int], None]
"""Takes bytes and messages."""


class Charges:
    """Worker `rank`'s part of the messages that its sums replace, each told to `charge`."""

    def __init__(self, rank: int, charge: Charge) -> None:
        self._rank = rank
        self._charge = charge
        self._shares: dict[tuple[Schedule, torch.Size, torch.dtype, int], tuple[int, int]] = {}

    def count(self, shape: torch.Size, dtype: torch.dtype, workers: int, topic: str, schedule: Schedule) -> None:
        """Charge for one sum; the first workers have one byte or message more where they cannot be shared out evenly."""
        key = (schedule, shape, dtype, len(topic))
        if key not in self._shares:
            nbytes, messages = schedule.traffic(torch.empty(shape, dtype=dtype, device="meta"), workers, topic)
            rank = self._rank
            self._shares[key] = nbytes // workers + (rank < nbytes % workers), messages // workers + (rank < messages % workers)
        self._charge(*self._shares[key])
