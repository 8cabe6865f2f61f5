"""The shapes of a JOB's steps with one batch or another, each observed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from polyrhythm.core.job_files.settings import Train
from polyrhythm.tools.measuring.replay import StepShape
from polyrhythm.tools.measuring.timing import shape_of
from polyrhythm.tools.planner.limited import Limited
from polyrhythm.tools.planner.memory import activations


@dataclass(slots=True)
class Shapes:
    """Shapes of steps by a key for the batch, None for the JOB's own."""

    shapes: dict[int | None, StepShape] = field(default_factory=dict)
    kept: dict[int | None, int] = field(default_factory=dict)

    def shape(self, batch: int | None, train: Callable[[], Train]) -> StepShape:
        """The shape of a step of the JOB that `train` makes, which has that batch."""
        if batch not in self.shapes:
            self.shapes[batch] = shape_of(train())
        return self.shapes[batch]

    def activations(self, batch: int | None, train: Callable[[], Train]) -> int:
        """Bytes that its backward() keeps."""
        if batch not in self.kept:
            self.kept[batch] = activations(Limited(train(), 2))
        return self.kept[batch]
