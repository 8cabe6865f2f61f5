"""Short runs in virtual time, with real gradients: how fast layouts come to a loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polyrhythm.core.kernel.events import Reported
from polyrhythm.core.settings import checked
from polyrhythm.core.simulator import Simulator
from polyrhythm.core.training.run import attempt
from polyrhythm.errors import CompositionError
from polyrhythm.tools.layouts.candidate import LayoutCandidate
from polyrhythm.tools.layouts.job import LayoutJob


@dataclass(frozen=True, slots=True)
@checked
class ShortRuns:
    """The best `layouts` of the screening are trained for so many `steps`, of each kind one at first.

    They are compared by the time to the `target`, a mean loss of `last` steps; without one, the lowest loss to which half of them come.
    """

    layouts: int = 4
    steps: int = 20
    target: float | None = None
    last: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.layouts < 0 or not 1 <= self.last <= self.steps:
            raise CompositionError(
                f"{self.layouts} layouts of {self.steps} steps, of which the last {self.last} count, are no runs: give 0 or more layouts, "
                "and no more last steps than steps."
            )

    def chosen(self, order: Sequence[LayoutCandidate]) -> list[LayoutCandidate]:
        """Those that are run, of candidates in their order: the first of each kind, then others."""
        firsts: dict[tuple[str, ...], LayoutCandidate] = {}
        for each in order:
            firsts.setdefault(each.kind, each)
        kinds = list(firsts.values())
        return [*kinds, *(each for each in order if each not in kinds)][: self.layouts]

    def run(self, candidate: LayoutCandidate, job: LayoutJob, on: Simulator) -> TrainedLayout:
        """Train it. Raises PolyrhythmErrors for a layout that cannot be trained so."""
        layout, strategy = candidate.layout()
        workers = layout.mesh.workers
        tried = attempt(job.training(self.steps), workers=workers, strategy=strategy, on=on, seed=self.seed, partition=layout)
        losses: dict[float, list[float]] = {}
        times: dict[float, float] = {}
        for event in tried.completed().events:
            if isinstance(event, Reported):
                losses.setdefault(event.clock, []).append(event.metrics["loss"])
                times[event.clock] = max(event.time, times.get(event.clock, 0.0))
        clocks = sorted(losses)
        if not clocks:
            raise CompositionError(f"In {self.steps} steps no batch has come through {candidate.name}: give its run more steps.")
        means = tuple(sum(losses[clock]) / len(losses[clock]) for clock in clocks)
        return TrainedLayout(tuple(times[clock] for clock in clocks), means, self.last)


@dataclass(frozen=True, slots=True)
class TrainedLayout:
    """What a short run showed: the virtual time at which each step ended, and its loss; `last` are the steps of a mean."""

    times: tuple[float, ...]
    losses: tuple[float, ...]
    last: int

    @property
    def step_seconds(self) -> float:
        """Of a step, on average, after the first."""
        return (self.times[-1] - self.times[0]) / (len(self.times) - 1) if len(self.times) > 1 else self.times[0]

    def mean(self, place: int) -> float:
        """The mean loss of the last steps until that one."""
        some = self.losses[max(0, place + 1 - self.last) : place + 1]
        return sum(some) / len(some)

    @property
    def loss(self) -> float:
        """The mean loss of the last steps."""
        return self.mean(len(self.losses) - 1)

    @property
    def lowest(self) -> float:
        """The lowest mean loss that it came to."""
        return min(self.mean(place) for place in range(min(self.last, len(self.losses)) - 1, len(self.losses)))

    def seconds_to(self, target: float) -> float | None:
        """The virtual time at which the mean loss was at the target; None if it never was."""
        reached = (time for place, time in enumerate(self.times) if place + 1 >= self.last and self.mean(place) <= target)
        return next(reached, None)
