"""The seconds by the clock that runs of a search take, as of those that it has made: it asks before it begins one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.measured import TrainedRun

_START = 0.05
"""The least that every run takes to begin and to end."""


@dataclass(slots=True)
class RunTimes:
    """What the `runs` say: the shortest is a beginning with hardly a step, and a step takes what it took in runs of its system, or of all.

    `batch` says how many samples a candidate's worker has in a step.
    """

    runs: Iterable[tuple[Candidate, TrainedRun]]
    batch: Callable[[Candidate], int]
    start: float = field(init=False)
    _steps: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        known = [(each, run) for each, run in self.runs if run.real]
        self.start = max(_START, min((run.real for _, run in known), default=0.0))
        totals: dict[str, tuple[float, float]] = {}
        for each, run in known:
            for name in ("", each.system):
                seconds, steps = totals.get(name, (0.0, 0.0))
                totals[name] = seconds + max(run.real - self.start, 0.0), steps + run.samples / self.batch(each)
        self._steps = {name: seconds / steps for name, (seconds, steps) in totals.items() if steps}

    def seconds(self, candidate: Candidate, steps: int) -> float:
        """Those of a run of so many steps of each worker; 0 before the first run of all."""
        step = self._steps.get(candidate.system, self._steps.get(""))
        return 0.0 if step is None else self.start + steps * candidate.workers * step
