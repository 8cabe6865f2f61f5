"""The training of a candidate as far as it is known: its curve, and what it cost. Findings keep it, and the stages of a search read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.metrics import Target, curve_of
from polyrhythm.core.training.run import Attempt
from polyrhythm.errors import BrokenOff
from polyrhythm.hardware.meters import LineUse
from polyrhythm.tools.planner.objective import Objective, Spent
from polyrhythm.tools.planner.run_notes import CUT, HELD, LINES, PAUSED, REAL

Array = NDArray[np.float64]

_ALIKE = 0.9
"""Workers end alike where all have this part of their samples when the first ends: then they waited for each other."""


class CurvePoint(msgspec.Struct, frozen=True):
    """An evaluation: what had been used by then, by all workers, and the metric's value."""

    seconds: float
    nbytes: float
    samples: float
    value: float

    def spent(self, workers: int) -> Spent:
        """The resources that were used by then, by so many workers."""
        return Spent(self.seconds, self.nbytes, workers)


class TrainedRun(msgspec.Struct, frozen=True):
    """A run with real gradients, over `limit` steps of each worker at most.

    `reached` is the place of the first evaluation that meets the target, -1 where none does; `seconds`, `nbytes` and `samples` are those
    of the whole run, and `begun` those by the first step of the last worker: until then weights are copied, once. `cut` is why it was
    ended early, and `error` why it failed; `over` says that it ended by itself, before its limit. `held` are the
    bytes that worker 0 held between steps, 0 where that is not known, and `real` the seconds that the run took by the clock.
    `lines` has the part of all bytes that went over each metered line. `together` are seconds, bytes and samples by the last step of the
    first worker that ended: until then all trained. `later` are those after half of its steps: what comes then shows the pace, where the
    beginning has a warm-up. One worker at least had taken `steps` by then. `like` names the run whose curve this is, where only steps were
    timed.
    """

    curve: list[CurvePoint]
    reached: int
    seconds: float
    nbytes: float
    samples: float
    limit: int
    over: bool = False
    cut: str = ""
    error: str = ""
    held: int = 0
    real: float = 0.0
    begun: tuple[float, float, float] = (0.0, 0.0, 0.0)
    lines: dict[str, LineUse] = {}
    later: tuple[float, float, float] = (0.0, 0.0, 0.0)
    like: str = ""
    together: tuple[float, float, float] = (0.0, 0.0, 0.0)
    steps: float = 0.0

    @staticmethod
    def of(attempt: Attempt, target: Target, limit: int, uncounted: int = 0, skips: bool = False) -> TrainedRun:
        """The results of a run, whole or broken off; a step has `uncounted` samples where the JOB counts none.

        A worker that `skips` the steps for which it is not drawn may end early.
        """
        steps_taken = [event for event in attempt.outcome.events if isinstance(event, Stepped)]
        first, stepped = {event.actor: event for event in reversed(steps_taken)}, {event.actor: event for event in steps_taken}
        taken, steps = Taken(steps_taken, uncounted), max((event.clock for event in stepped.values()), default=0)
        curve = [
            CurvePoint(event.time, event.bytes_sent, taken.by(event.time), event.metrics[target.metric])
            for event in curve_of(attempt.outcome, target.metric)
        ]
        reached = next((place for place, point in enumerate(curve) if target.met_by(point.value)), -1)
        seconds, ended = max((event.time for event in stepped.values()), default=0.0), _ended(stepped.values(), taken, skips)
        nbytes = max((event.bytes_sent for event in stepped.values()), default=0)
        cut = str(attempt.error) if isinstance(attempt.error, BrokenOff) else attempt.outcome.settings.get(CUT, "")
        limit = min(limit, steps) if PAUSED in attempt.outcome.settings else limit
        held = int(attempt.outcome.settings.get(HELD, 0))
        real = float(attempt.outcome.settings.get(REAL, 0.0))
        error = "" if isinstance(attempt.error, BrokenOff) or attempt.error is None else str(attempt.error)
        return TrainedRun(
            curve,
            reached,
            seconds,
            nbytes,
            taken.by(math.inf),
            limit,
            steps < limit and not cut,
            cut,
            error,
            held,
            real,
            _start(list(first.values()), taken),
            msgspec.json.decode(attempt.outcome.settings.get(LINES, "{}"), type=dict[str, LineUse]),
            _half(steps_taken, stepped.values(), taken),
            together=taken.spent_by(ended),
            steps=float(taken.clocks(np.array([ended])).max(initial=0.0)),
        )

    def delayed(self, later: Callable[[float, float], float]) -> TrainedRun:
        """The run in which what was at so many seconds, with so many samples, is `later`, as where data have to be fetched."""
        curve = [replace(point, seconds=later(point.seconds, point.samples)) for point in self.curve]
        begun, half, together = ((later(each[0], each[2]), *each[1:]) for each in (self.begun, self.later, self.together))
        return replace(self, curve=curve, seconds=later(self.seconds, self.samples), begun=begun, later=half, together=together)

    @property
    def end(self) -> CurvePoint | None:
        """The evaluation that reached the target; None where none did."""
        return self.curve[self.reached] if self.reached >= 0 else None

    def cost(self, objective: Objective, workers: int) -> float:
        """Its cost to the target, by the objective; infinite where that was not reached."""
        return math.inf if self.end is None else objective.cost(self.end.spent(workers))

    @property
    def whole(self) -> tuple[float, float, float]:
        """Seconds, bytes and samples for as long as all trained; of the whole run, where that was not noted."""
        return self.together if self.together[2] else (self.seconds, self.nbytes, self.samples)

    @property
    def sample_seconds(self) -> float:
        """The seconds of one more sample of all workers, while all train."""
        return self.whole[0] / self.whole[2]

    def ahead(self, per_step: float) -> float:
        """How many steps a worker had taken, at the most, for each step of all of so many samples."""
        return max(1.0, self.steps * per_step / self.whole[2]) if self.whole[2] else 1.0

    def cost_of(self, samples: float, objective: Objective, workers: int) -> float:
        """The cost of so many samples, at the rate of this run after its beginning."""
        if not self.samples or samples == math.inf:
            return math.inf
        whole = self.whole
        seconds, nbytes, used = self.begun if self.begun[2] < min(samples, whole[2]) else (0.0, 0.0, 0.0)
        part = (samples - used) / (whole[2] - used)
        return objective.cost(Spent(seconds + part * (whole[0] - seconds), nbytes + part * (whole[1] - nbytes), workers))

    def best(self, target: Target) -> float | None:
        """The best value; None where nothing was evaluated."""
        return target.best(point.value for point in self.curve) if self.curve else None


class Taken:
    """What workers had computed on and sent, by time; between the `steps` that are known a worker's counts increase evenly.

    A step has `uncounted` samples where none were counted.
    """

    def __init__(self, steps: Sequence[Stepped], uncounted: int = 0) -> None:
        own: dict[str, dict[float, tuple[float, int, int, int]]] = {}
        for event in steps:
            row = event.time, event.samples or uncounted * event.clock, event.clock, event.bytes_sent
            own.setdefault(event.actor, {})[event.time] = row
        self.known = {actor: np.array(list(rows.values()), float).T for actor, rows in own.items()}

    def by(self, moment: float) -> float:
        """The samples of all workers until `moment`."""
        return float(self.samples(np.array([moment]))[0])

    def spent_by(self, moment: float) -> tuple[float, float, float]:
        """The moment, the bytes by then and the samples."""
        return moment, float(self.nbytes(np.array([moment]))[0]), self.by(moment)

    def samples(self, moments: Array) -> Array:
        """The samples of all workers until each of some moments."""
        return np.asarray(self._each(moments, 1).sum(0))

    def nbytes(self, moments: Array) -> Array:
        """The bytes that had been sent by the worker that sent most."""
        return np.asarray(self._each(moments, 3).max(0, initial=0.0))

    def clocks(self, moments: Array) -> Array:
        """The steps of each worker, one in a row."""
        return self._each(moments, 2)

    def _each(self, moments: Array, row: int) -> Array:
        found = [np.interp(moments, each[0], each[row], left=0.0) for each in self.known.values()]
        return np.array(found).reshape(len(found), len(moments))


def _start(first: Sequence[Stepped], taken: Taken) -> tuple[float, float, float]:
    """Seconds, bytes and samples by which each had taken its first step."""
    if not first:
        return 0.0, 0.0, 0.0
    seconds = max(each.time for each in first)
    return seconds, float(max(each.bytes_sent for each in first)), taken.by(seconds)


def _ended(last: Collection[Stepped], taken: Taken, skips: bool) -> float:
    """When the first worker ended; the last one, where the others ended about when it did, and where some skip steps."""
    times = [each.time for each in last] or [0.0]
    alike = taken.by(min(times)) >= _ALIKE * taken.by(max(times))
    return max(times) if skips or alike else min(times)


def _half(steps: Sequence[Stepped], last: Collection[Stepped], taken: Taken) -> tuple[float, float, float]:
    """Seconds, bytes and samples when the worker that ended first had taken half of its steps: what was exchanged by then is whole."""
    if not last:
        return 0.0, 0.0, 0.0
    first = min(last, key=lambda each: each.time)
    return taken.spent_by(min(each.time for each in steps if each.actor == first.actor and each.clock >= first.clock / 2))
