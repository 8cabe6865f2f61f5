"""What a run gives to each rank of its program. `ProgramRun` has it, and ranks ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.core.settings import whole_number
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.errors import CompositionError


class EnoughSteps(SystemExit):
    """Ends a rank that has taken the steps that are wanted."""


@dataclass(frozen=True, slots=True)
class RankSettings:
    """`strategy` is that of `pr.join()` where the program names none. `metric` is read from what rank 0 prints; "" for none. After `steps`
    of its optimizer a rank ends; None for never. Raises CompositionError for what is no number of steps."""

    strategy: Strategy | None = None
    metric: str = ""
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and whole_number("steps", self.steps, "1 or more") < 1:
            raise CompositionError(f"steps={self.steps} is no number of steps: give 1 or more.")


PLAIN = RankSettings()
"""Those of a program that is run as it is."""
