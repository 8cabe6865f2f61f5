"""Where the workers of a job are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """The place of one worker: its host, and the numbers of its devices there."""

    host: str
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class JobPlacement:
    """The slots of a job's workers, in the order of their ranks, neighbours on a ring side by side.

    `quality` is the bandwidth of the slowest link of that ring, in bytes per second. `system` is the way of training that the policy has
    chosen, and `seconds` what it predicts, where it does.
    """

    job: str
    slots: tuple[WorkerSlot, ...]
    quality: float = field(default=float("inf"), compare=False)
    system: str | None = None
    seconds: float | None = field(default=None, compare=False)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, each once, in the order of ranks."""
        return tuple(dict.fromkeys(slot.host for slot in self.slots))

    def fewer(self, workers: int) -> JobPlacement:
        """The same with so many workers: those on the hosts with the fewest of them leave first, later ranks before earlier ones."""
        crowd = Counter(slot.host for slot in self.slots)
        order = sorted(
            range(len(self.slots)), key=lambda place: (-crowd[self.slots[place].host], self.hosts.index(self.slots[place].host), place)
        )
        kept = sorted(order[:workers])
        return replace(self, slots=tuple(self.slots[place] for place in kept))
