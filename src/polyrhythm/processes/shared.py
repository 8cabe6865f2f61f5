"""Sums over all workers through memory that they share, where all are on one host."""

from __future__ import annotations

import torch
from torch import Tensor

from polyrhythm.kernel.effects import Reduce, Schedule
from polyrhythm.kernel.port import worker
from polyrhythm.processes.charges import Charge, Charges
from polyrhythm.sharing import Group


class SharedMemory:
    """A worker's part in a group of all workers. `charge` counts what the messages of the schedule would have been."""

    def __init__(self, group: Group, charge: Charge) -> None:
        self._group = group
        self._charges = Charges(group.rank, charge)
        self._gone: list[str] = []
        self._orders: dict[tuple[Schedule, int, int], bool | None] = {}

    def reduce(self, effect: Reduce) -> Tensor | None:
        """The sum, in the order of its schedule."""
        rotated = self._rotated(effect)
        if rotated is None or effect.workers != self._group.ranks or effect.value.device.type != "cpu":
            return None
        self._charges.count(effect)
        value = effect.value.contiguous()
        total = torch.empty_like(value)
        try:
            self._group.reduce(value, total, rotated=rotated)
        except ConnectionAbortedError as problem:
            raise ConnectionAbortedError("; ".join(self._gone) or str(problem)) from None
        return total

    def part(self, rank: int, how: str) -> None:
        """What it had given before still counts."""
        self._gone.append(f"{worker(rank)} {how}")
        self._group.lose(rank)

    def give_up(self) -> None:
        """Wait for nobody."""
        for rank in range(self._group.ranks):
            self._group.lose(rank)

    @property
    def moved(self) -> int:
        """How far everyone is."""
        return self._group.moved

    def _rotated(self, effect: Reduce) -> bool | None:
        """Whether the parts of a sum begin with their own rank (True) or all with rank 0 (False); None if neither."""
        key = (effect.schedule, effect.workers, effect.value.numel() * effect.value.element_size())
        if key not in self._orders:
            self._orders[key] = _rotated(*key)
        return self._orders[key]


def _rotated(schedule: Schedule, workers: int, nbytes: int) -> bool | None:
    firsts = [schedule.first(part, workers, nbytes) for part in range(workers)]
    if firsts == list(range(workers)):
        return True
    return False if all(first == 0 for first in firsts) else None
