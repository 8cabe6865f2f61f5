"""How many steps real processes take in a second: reproductions compare it where workers share memory."""

from __future__ import annotations

from polyrhythm.core.kernel.events import Stepped
from polyrhythm.core.records.outcome import Outcome


def steps_per_second(outcome: Outcome) -> float:
    """Steps of all workers in a second, but for the first tenth, in which caches fill."""
    times = sorted(event.time for event in outcome.events if isinstance(event, Stepped))
    times = times[len(times) // 10 :]
    return (len(times) - 1) / (times[-1] - times[0])
