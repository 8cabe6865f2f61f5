"""Times the steps of a training function on this machine, for the profile that the simulator charges."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean

from polyrhythm.consistency import LocalSteps
from polyrhythm.core.kernel.crew import Crew
from polyrhythm.core.kernel.events import AnyEvent, Merged, Stepped
from polyrhythm.core.kernel.names import server
from polyrhythm.core.processes import Processes
from polyrhythm.core.strategy.strategy import Strategy
from polyrhythm.core.training.run import attempt
from polyrhythm.core.training.work import Train
from polyrhythm.errors import CompositionError, PolyrhythmError
from polyrhythm.hardware.devices import Profile
from polyrhythm.topology import AllReduce

WARM_UP_STEPS = 10
"""Not counted: memory is allocated, caches fill, processors change their clock. A multiple of usual intervals between exchanges, so
that a rotation of measured steps begins where an interval begins."""
_FEWEST = 2
_LATE = 0.1
"""Seconds after which the events of other actors are known too: actors send them every 20 ms."""

APART = Strategy(name="apart", consistency=LocalSteps(1 << 40), topology=AllReduce())
"""Workers that begin with the same weights and then do not communicate: each computes as if it were alone, on the cores it shares."""


def device_profile(train: Train, *, workers: int = 1, steps: int = 30, seed: int = 0, strategy: Strategy = APART) -> Profile:
    """Time `steps` steps of `train` in each of `workers` real processes of this host at once, and end the run.

    Workers that share cores slow each other down: give as many as will share a machine in the real run. The seconds of a step are the mean
    of all workers'. With `strategy`, what it computes and copies at workers and servers is in the steps too; that passes by shared memory,
    so what a network adds is not. What servers merge, and workers under AllToAll, is measured for itself. A training function that ends
    earlier gives fewer steps. Raises CompositionError if those are less than two after the first ten, and what the run raised.
    """
    if steps < 1:
        raise CompositionError(f"A profile of {steps} steps is empty: time 1 or more.")
    workers = Crew.of(workers).number("A profile")
    watch = _Stopwatch(strategy.workers(workers), WARM_UP_STEPS + steps)
    tried = attempt(train, workers=workers, strategy=strategy, on=Processes(), seed=seed, watch=watch)
    if tried.error is not None and not isinstance(tried.error, _ProfileCompleteError):
        raise tried.error
    seconds = watch.seconds()
    if len(seconds) < min(steps, _FEWEST):
        raise CompositionError(
            f"The training function took at most {WARM_UP_STEPS + len(seconds)} steps at one of {workers} workers, and the first "
            f"{WARM_UP_STEPS} are warm-up: give it more epochs or smaller batches."
        )
    each = watch.seconds_per_contribution()
    return Profile("measured", tuple(seconds), each)  # not named after the function: it is a machine


class _ProfileCompleteError(PolyrhythmError):
    """Ends the run that is timed."""


@dataclass(slots=True)
class _Stopwatch:
    """Notes when each of `workers` ended its steps, until all have taken `enough` of them, and the merges meanwhile."""

    workers: int
    enough: int
    ended: dict[str, list[float]] = field(default_factory=dict)
    merges: list[Merged] = field(default_factory=list)

    def __call__(self, event: AnyEvent) -> None:
        """Note a step or a merge. Raises _ProfileCompleteError when all steps are there."""
        if isinstance(event, Merged):
            self.merges.append(event)
        elif isinstance(event, Stepped):
            self.ended.setdefault(event.actor, []).append(event.time)
            complete = len(self.ended) == self.workers and min(map(len, self.ended.values())) >= self.enough
            if complete and event.time > _LATE + max(times[self.enough - 1] for times in self.ended.values()):
                raise _ProfileCompleteError

    def seconds(self) -> list[float]:
        """The mean over the workers of what each step took after the first few, in order, without the merging that is charged apart."""
        each = self.seconds_per_contribution()
        spans = []
        for actor, times in self.ended.items():
            counted = times[WARM_UP_STEPS - 1 : self.enough]
            spans.append([max(after - before - each * self._merged(actor, before, after), 0.0) for before, after in pairwise(counted)])
        return [mean(step) for step in zip(*spans, strict=False)] if len(spans) == self.workers else []

    def seconds_per_contribution(self) -> float:
        """The seconds of merging a contribution, after the first few steps; 0 where no actor merges them one by one."""
        began = max((times[:WARM_UP_STEPS][-1] for times in self.ended.values()), default=0.0)
        merges = [merge for merge in self.merges if merge.time > began]
        return sum(merge.seconds for merge in merges) / sum(len(merge.staleness) for merge in merges) if merges else 0.0

    def _merged(self, actor: str, before: float, after: float) -> int:
        """The contributions of others that the worker `actor` merged between two moments, and those that shard 0 merged meanwhile."""
        merges = [merge for merge in self.merges if before < merge.time <= after]
        own = sum(len(merge.staleness) - 1 for merge in merges if merge.actor == actor)
        return own + sum(len(merge.staleness) for merge in merges if merge.actor == server(0))
