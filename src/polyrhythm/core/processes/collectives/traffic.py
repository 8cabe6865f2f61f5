"""The traffic that is counted for a sum without messages."""

from __future__ import annotations

from collections.abc import Callable

import torch

from polyrhythm.core.kernel.effects import NativeSum, Schedule

CountTraffic = Callable[[int, int], None]
"""Takes bytes and messages."""


class TrafficCounter:
    """One actor's part of the messages that its sums replace, each given to `add`."""

    def __init__(self, add: CountTraffic) -> None:
        self._add = add
        self._shares: dict[tuple[Schedule, torch.Size, torch.dtype, int, int], tuple[int, int]] = {}

    def count(self, effect: NativeSum, shape: torch.Size, dtype: torch.dtype) -> None:
        """Add one sum, of a tensor like this; where the workers' parts cannot be equal, the first have one byte or message more."""
        key = (effect.schedule, shape, dtype, effect.group.size, len(effect.topic))
        if key not in self._shares:
            rank, workers = effect.group.rank, effect.group.size
            nbytes, messages = effect.schedule.traffic(torch.empty(shape, dtype=dtype, device="meta"), workers, effect.topic)
            self._shares[key] = nbytes // workers + (rank < nbytes % workers), messages // workers + (rank < messages % workers)
        self._add(*self._shares[key])
