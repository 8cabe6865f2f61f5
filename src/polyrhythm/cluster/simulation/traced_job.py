"""A job of a trace."""

from __future__ import annotations

from dataclasses import dataclass

from polyrhythm.cluster.jobs import ClusterJob
from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


@dataclass(frozen=True, slots=True)
@checked
class TracedJob:
    """A job that arrives at `submitted`, and takes `seconds` with all of its workers, none of which waits for communication."""

    submitted: float
    job: ClusterJob
    seconds: float

    def __post_init__(self) -> None:
        if self.submitted < 0 or not self.seconds > 0:
            raise CompositionError(
                f"The job {self.job.name!r} of a trace arrives at {self.submitted} and takes {self.seconds} s: give zero or more, and more "
                "than zero."
            )
