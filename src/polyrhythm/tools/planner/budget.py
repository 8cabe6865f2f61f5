"""The time limit of a search, by the clock. The planner makes one for each plan, and every stage of the search asks it how much is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, time


@dataclass(slots=True)
class Budget:
    """A budget of so many `seconds` from now on. `now` is a clock of this process; `day` is the time of day, the same in all processes."""

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
        """The time of day at which a part of the budget is used up."""
        return self.day() + self.left(part)
