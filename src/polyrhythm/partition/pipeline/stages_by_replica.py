"""A division of its own for each replica: machines of unequal speed, or pipelines of unequal length."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.errors import CompositionError
from polyrhythm.partition.pipeline.balance import StageDivision


@dataclass(frozen=True, slots=True)
class StagesByReplica:
    """Replica k is divided by the k-th of `divisions`.

    Raises CompositionError for divisions of models with unlike numbers of steps.

    Examples:
        >>> from polyrhythm.partition.pipeline.balance import GivenStages
        >>> StagesByReplica((GivenStages((2, 2)), GivenStages((1, 2, 1)))).of_replica(1)
        GivenStages(steps=(1, 2, 1))
    """

    divisions: tuple[StageDivision, ...]

    def __post_init__(self) -> None:
        known = {each.model_steps for each in self.divisions if each.model_steps is not None}
        if not self.divisions or len(known) > 1:
            raise CompositionError(
                f"{self!r} has no division, or those of models with {' and '.join(map(str, sorted(known)))} steps: give one for each "
                "replica, all of the same steps."
            )

    @property
    def model_steps(self) -> int | None:
        """The number of steps of the model."""
        return next((each.model_steps for each in self.divisions if each.model_steps is not None), None)

    def of_replica(self, number: int) -> StageDivision:
        if number >= len(self.divisions):
            raise CompositionError(
                f"StagesByReplica has {len(self.divisions)} divisions, and there is a replica {number}: give one for each replica."
            )
        return self.divisions[number].of_replica(number)

    def sizes(self, steps: int, stages: int) -> tuple[int, ...]:
        return self.of_replica(0).sizes(steps, stages)
