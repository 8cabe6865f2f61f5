"""How long a search may take, by the clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, time


@dataclass(slots=True)
class Budget:
    """So many `seconds` from now on. `now` is a clock of this process, `day` that of the day, which other processes and hosts have too."""

    seconds: float
    now: Callable[[], float] = monotonic
    day: Callable[[], float] = time
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.now()

    def spent(self) -> float:
        """Seconds that are over."""
        return self.now() - self.began

    def left(self, part: float = 1.0) -> float:
        """Seconds until this part of the budget is spent; negative afterwards."""
        return part * self.seconds - self.spent()

    def deadline(self, part: float = 1.0) -> float:
        """When that will be, on the clock of the day."""
        return self.day() + self.left(part)
