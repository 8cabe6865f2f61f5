"""Paces of many systems before any of them trains: timing-only runs of a small model, on links that are as much slower. A search asks for
them after it has tuned one machine alone, and real runs replace them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic

import msgspec

from polyrhythm.core.checkpoints.request import Checkpoints
from polyrhythm.core.kernel.events import AnyEvent
from polyrhythm.core.records.outcome import Outcome, Summary
from polyrhythm.core.records.progress import Watch
from polyrhythm.core.tensors import Layout
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import BrokenOff, PolyrhythmError
from polyrhythm.tools.measuring.replay import StepShape
from polyrhythm.tools.planner.candidate import Candidate
from polyrhythm.tools.planner.pace import FORETOLD, StepPace
from polyrhythm.tools.planner.proxy.true_timing import TrueTiming, true_timing
from polyrhythm.tools.planner.scenario import Scenario
from polyrhythm.tools.pools.pools import Followed

_NUMBERS = 40_000
"""A small model has so many numbers, or fewer."""
_WHOLE_SIDE = 64
_LEAST_SIDE = 16
_LONGEST = 0.3
"""A timing that takes more seconds by the clock is left: the system's own run will tell."""
_TOGETHER = 16
"""A process makes so many timings."""
_PACES = "paces"


def small_shape(shape: StepShape) -> StepShape:
    """The largest shape with few numbers whose sides are those of `shape`, divided by the same power of two. A step computes as long.

    Codecs that transform tiles go by the common divisors of sides with 64, so a side keeps its own.
    """
    for power in count():
        layout = Layout(shape.layout.names, tuple(tuple(_side(side, 2**power) for side in sides) for sides in shape.layout.shapes))
        if layout.numel <= _NUMBERS or all(side == _side(side, 2 ** (power + 1)) for sides in layout.shapes for side in sides):
            break
    return replace(shape, layout=layout, frozen={}, buffers={})


def _side(side: int, factor: int) -> int:
    if side <= _WHOLE_SIDE:
        return side
    kept = math.gcd(side, _WHOLE_SIDE)
    return next(each for each in count(max(_LEAST_SIDE, side // factor)) if math.gcd(each, _WHOLE_SIDE) == kept)


@dataclass(frozen=True, slots=True)
class PacesTask:
    """Timings of steps of `shape` for several `candidates`, one after another, on those of a `small` one."""

    scenario: Scenario
    candidates: tuple[Candidate, ...]
    shape: StepShape
    small: StepShape

    @property
    def name(self) -> str:
        """What progress lines say of it."""
        return f"{len(self.candidates)} timings from {self.candidates[0].name} on"

    def attempt(self, directory: Path | None, watch: Watch, checkpoints: Checkpoints | None = None) -> Attempt:
        """Make them. What cannot be timed, or takes too long, has no pace."""
        paces = [self._timed(each) for each in self.candidates]
        outcome = self._outcome("")
        outcome.settings[_PACES] = msgspec.json.encode(paces).decode()
        return Attempt(outcome)

    def failed(self, error: PolyrhythmError) -> Attempt:
        """The attempt of a task of which only `error` is known."""
        return Attempt(self._outcome(str(error)), error)

    def _outcome(self, error: str) -> Outcome:
        return Outcome(Summary("timing", 0, "simulated", self.scenario.network.name, self.scenario.seed, error=error))

    def _timed(self, candidate: Candidate) -> StepPace | None:
        until = monotonic() + _LONGEST

        def stop(event: AnyEvent) -> None:
            if monotonic() > until:
                raise BrokenOff("its timing takes long")

        try:
            timing = true_timing(self.scenario, candidate, self.shape, self.small, stop)
        except PolyrhythmError:
            return None
        return _pace(timing, float(candidate.workers * self.shape.samples))


def _pace(timing: TrueTiming, per_step: float) -> StepPace:
    seconds, nbytes = (each * per_step for each in timing.pace)
    settled = timing.settled
    begun = float(timing.seconds[settled]), float(timing.nbytes[settled]), float(timing.samples[settled])
    return StepPace(begun, seconds, nbytes, FORETOLD, timing.ahead)


@dataclass(slots=True)
class Foretelling:
    """Times candidates of `scenario` on a small model of `shape`, a step of which has `batch` samples; results come into `paces`."""

    scenario: Scenario
    shape: StepShape
    batch: int
    paces: dict[Candidate, StepPace] = field(default_factory=dict)

    def runs(self, candidates: Sequence[Candidate], left: Callable[[], bool]) -> Iterator[Followed]:
        """The timings of all candidates on the machines in turn, by some in each process, while there is time left."""
        shape = replace(self.shape, samples=self.batch)
        small = small_shape(shape)
        whole = small.layout == shape.layout  # samples that travel are as large as before
        possible = [each for each in candidates if not each.machines and (whole or not each.strategy.shuffle.sends)]
        for begin in range(0, len(possible), _TOGETHER):
            if not left():
                return
            some = tuple(possible[begin : begin + _TOGETHER])
            yield PacesTask(self.scenario, some, shape, small), partial(self._keep, some)

    def _keep(self, candidates: Sequence[Candidate], attempt: Attempt) -> None:
        paces = msgspec.json.decode(attempt.outcome.settings.get(_PACES, "[]"), type=list[StepPace | None])
        self.paces |= {each: pace for each, pace in zip(candidates, paces, strict=False) if pace is not None}
