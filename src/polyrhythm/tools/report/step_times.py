"""The seconds that each worker computed for each of its steps, and the moment since which they are longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from polyrhythm.core.kernel.events import AnyEvent, Computed, Stepped
from polyrhythm.core.kernel.names import is_worker

_LONGER = 1.4
_FEWEST = 12
_SPLITS = 20


@dataclass(frozen=True, slots=True)
class StepTimeShift:
    """From some moment on a worker's steps take `factor` times as long."""

    since: float
    factor: float


class StepTimes:
    """Seconds that each worker computed for each step, with the times at which the steps ended."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self.times: dict[str, list[tuple[float, float]]] = {}
        pending: dict[str, float] = {}
        for event in events:
            if isinstance(event, Computed) and is_worker(event.actor):
                pending[event.actor] = pending.get(event.actor, 0.0) + event.seconds
            elif isinstance(event, Stepped):
                self.times.setdefault(event.actor, []).append((event.time, pending.pop(event.actor, 0.0)))

    def medians(self) -> dict[str, float]:
        """The median of each worker; the first step, which warms up, is left out where there are more."""
        return {name: median(seconds for _, seconds in (times[1:] or times)) for name, times in sorted(self.times.items())}

    def changes(self) -> dict[str, StepTimeShift]:
        """The shifts of the workers that slow down much more than the others do; none if that holds for more than half of them."""
        found = {name: change for name, times in sorted(self.times.items()) if (change := _change(times)) is not None}
        slower = {}
        for name, change in found.items():
            others = [other.factor for one, other in found.items() if one != name]
            if others and change.factor > _LONGER * median(others):
                slower[name] = change
        return slower if 2 * len(slower) <= len(found) else {}


def _change(times: Sequence[tuple[float, float]]) -> StepTimeShift | None:
    """The split of a worker's steps whose parts deviate least from their own medians; a factor of 1 where the later part is not longer."""
    own = times[1:]
    if len(own) < _FEWEST:
        return None
    seconds, least = [each for _, each in own], max(4, len(own) // _SPLITS)
    place = min(
        range(least, len(own) - least + 1, max(1, len(own) // _SPLITS)),
        key=lambda place: _deviation(seconds[:place]) + _deviation(seconds[place:]),
    )
    before, after = median(seconds[:place]), median(seconds[place:])
    return StepTimeShift(own[place - 1][0], after / before) if before and after > before else StepTimeShift(0.0, 1.0)


def _deviation(values: Sequence[float]) -> float:
    """The sum of the distances from the median."""
    middle = median(values)
    return sum(abs(each - middle) for each in values)
