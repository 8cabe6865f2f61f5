"""Interruptions of workers, such as those of spot instances: at a rate, or of a trace; and the time to the target under them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from polyrhythm.errors import CompositionError
from polyrhythm.hardware.faults import Trace
from polyrhythm.tools.planner.products import product

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Standstills:
    """Seconds for which the others stand still: after a worker was `lost`, and for a `newcomer`.

    `redone` are those that it takes to compute again what only the lost worker had.
    """

    lost: float
    newcomer: float
    redone: float = 0.0


@dataclass(frozen=True, slots=True)
class Interruptions:
    """Each worker is lost `per_hour` so many times and replaced at once, or workers leave, crash and join as a `trace` has it.

    At a rate each is told `notice` seconds before: one that takes a step in less time hands over what it has computed.
    """

    per_hour: float = 0.0
    trace: Trace | None = None
    notice: float = 0.0

    @staticmethod
    def of(given: float | str | Path) -> Interruptions:
        """Those of a rate, or of the file or the bundled trace of that name. Raises PolyrhythmErrors for what is neither."""
        try:
            rate = float(given) if isinstance(given, str | int | float) else None
        except ValueError:
            rate = None
        if rate is None:
            return Interruptions(trace=Trace(str(given)))
        if not 0 <= rate < math.inf:
            raise CompositionError(f"interruptions={given} is no rate: give how often an hour a worker is lost, such as 0.5, or a trace.")
        return Interruptions(rate)

    def __str__(self) -> str:
        told = f" with {self.notice:g} s of notice" if self.notice else ""
        return f"{self.per_hour:g} interruptions an hour of each worker{told}" if self.trace is None else f"the trace {self.trace.path}"

    def seconds(self, whole: float, workers: int, crew: Standstills) -> float:
        """The time of training that takes `whole` seconds without interruptions; infinite where these leave none.

        It is as fast as there are workers, and stands still at each change.
        """
        if self.trace is not None:
            return _under(self.trace, whole, workers, crew)
        part = product(self.per_hour / HOUR, workers, crew.lost + crew.newcomer + crew.redone)
        return whole / (1 - part) if part < 1 else math.inf

    def restarted(self, whole: float, workers: int) -> float | None:
        """The mean time where any loss ends the run, which then begins anew; None for a trace, which has one course."""
        rate = self.per_hour / HOUR * workers
        if self.trace is not None:
            return None
        return whole if not rate else math.expm1(rate * whole) / rate if rate * whole < 700 else math.inf


def _under(trace: Trace, whole: float, workers: int, crew: Standstills) -> float:
    now, left, size = 0.0, whole, workers
    for line in trace.lines():
        at, pace = line.at / trace.speed, size / workers
        if left <= (at - now) * pace:
            break
        left, now = left - max(0.0, at - now) * pace, max(now, at)
        if line.kind == "join":
            size, standing = min(workers, size + line.count), product(crew.newcomer, size < workers)
        else:
            gone = min(line.count, size - 1)
            size, standing = size - gone, product(crew.lost, gone > 0) + product(crew.redone, gone, line.kind == "crash")
        now += standing
    return now + left * workers / size
