"""How what a program computes between two waits becomes virtual seconds: by its operations, or as it was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import thread_time
from typing import Protocol

from polyrhythm.hardware.devices import Machine
from polyrhythm.hardware.fleet import ComputeTimer
from polyrhythm.hardware.segments import SegmentTimes

Where = Callable[[], str]
"""Returns the line of the program that waits, in its thread."""
_BEGIN, _END = "begin", "end"
_SHOWN = 8


class Charging(Protocol):
    """That of one program. `flops` are the operations counted since it continued, `timing` is the time of its actor."""

    def begin(self) -> None:
        """The program continues, in its thread."""

    def look(self, timing: ComputeTimer, flops: int) -> float:
        """The seconds since it continued; its thread asks."""

    def end(self, ended: bool = False) -> None:
        """The program waits, or has ended, in its thread."""

    def take(self, timing: ComputeTimer, flops: int) -> float:
        """The seconds from when it continued until it waited."""

    def step(self, timing: ComputeTimer, flops: int, samples: int) -> float:
        """The seconds since it continued, with what a step costs besides; `flops` are taken, and counted anew; its thread asks."""


class ByOperations:
    """The operations that were counted, at the speed of the device."""

    __slots__ = ()

    def begin(self) -> None:
        """Nothing is measured."""

    def look(self, timing: ComputeTimer, flops: int) -> float:
        return timing.seconds(flops)

    def end(self, ended: bool = False) -> None:
        """Nothing is measured."""

    def take(self, timing: ComputeTimer, flops: int) -> float:
        return timing.seconds(flops) if flops else 0.0

    def step(self, timing: ComputeTimer, flops: int, samples: int) -> float:
        return timing.step_seconds(flops, samples)


class Places:
    """The segments of one program, each from one place where it waited to the next: their names.

    The k-th wait in succession at one line is a place for itself, such as those of a backward pass.
    """

    __slots__ = ("_place", "_times", "_where")

    def __init__(self, where: Where) -> None:
        self._where = where
        self._place = _BEGIN
        self._times = 0

    def reached(self, ended: bool) -> tuple[str, str]:
        """The two places of the segment that ends here."""
        place = _END if ended else self._where()
        known = self._place
        self._times = self._times + 1 if place == known.partition(" #")[0] else 0
        self._place = f"{place} #{self._times}" if self._times else place
        return known, self._place


class Measuring:
    """The CPU seconds of the program's thread, which are noted in `found` too."""

    __slots__ = ("_found", "_places", "_seconds", "_since", "_used")

    def __init__(self, where: Where, found: SegmentTimes, used: Callable[[], float] = thread_time) -> None:
        self._places = Places(where)
        self._found = found
        self._used = used
        self._since = 0.0
        self._seconds = 0.0

    def begin(self) -> None:
        self._since = self._used()

    def look(self, timing: ComputeTimer, flops: int) -> float:
        self.end()
        self.begin()
        return self._seconds

    def end(self, ended: bool = False) -> None:
        seconds = self._used() - self._since
        self._found.note(*self._places.reached(ended), seconds)
        self._seconds += seconds

    def take(self, timing: ComputeTimer, flops: int) -> float:
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def step(self, timing: ComputeTimer, flops: int, samples: int) -> float:
        self.look(timing, flops)
        return self.take(timing, flops)


class AsMeasured:
    """The median of each segment, where it was measured; another costs its counted operations, and is noted by `lack`."""

    __slots__ = ("_counted", "_ended", "_lack", "_passed", "_places")

    def __init__(self, where: Where, lack: Callable[[str, str], None]) -> None:
        self._places = Places(where)
        self._lack = lack
        self._ended: list[tuple[str, str]] = []
        self._passed, self._counted = 0.0, 0
        """The seconds and operations of the segments that have ended since the program continued."""

    def begin(self) -> None:
        """Nothing is measured."""

    def look(self, timing: ComputeTimer, flops: int) -> float:
        self.end()
        self._pass(timing, flops)
        return self._passed

    def end(self, ended: bool = False) -> None:
        self._ended.append(self._places.reached(ended))

    def take(self, timing: ComputeTimer, flops: int) -> float:
        self._pass(timing, flops)
        seconds, self._passed, self._counted = self._passed, 0.0, 0
        return seconds

    def step(self, timing: ComputeTimer, flops: int, samples: int) -> float:
        self.end()
        return self.take(timing, flops) + timing.step_seconds(0, samples)

    def _pass(self, timing: ComputeTimer, flops: int) -> None:
        for begin, end in self._ended:
            seconds = timing.segment(begin, end)
            if seconds is None:
                seconds = timing.seconds(flops - self._counted)
                self._lack(begin, end)
            self._passed += seconds
        self._ended.clear()
        self._counted = flops


@dataclass(slots=True)
class Uncharged:
    """What a run could not charge: calls of `operations` that take time and are not counted, and `segments` that were not measured."""

    operations: Counter[str] = field(default_factory=Counter)
    segments: Counter[tuple[str, str]] = field(default_factory=Counter)

    def lack(self, begin: str, end: str) -> None:
        """A segment was not measured."""
        self.segments[begin, end] += 1

    def remarks(self) -> list[str]:
        """A sentence for each kind, for those who read the times."""
        found = []
        if self.operations:
            shown = _listed([f"{name} ({times})" for name, times in sorted(self.operations.items(), key=lambda each: (-each[1], each[0]))])
            found.append(f"no virtual time was charged for these operations, which are not counted: {shown}; --measure times all")
        if self.segments:
            shown = _listed([f"{begin} to {end}" for begin, end in sorted(self.segments)])
            found.append(f"{sum(self.segments.values())} segments were not measured, and cost their operations alone: {shown}")
        return found


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def charging_of(
    machine: Machine, where: Where, uncharged: Uncharged, found: SegmentTimes | None, used: Callable[[], float] = thread_time
) -> Charging:
    """That of a program on `machine`; with `found` it is measured, by the CPU seconds that it has `used`."""
    if found is not None:
        return Measuring(where, found, used)
    return AsMeasured(where, uncharged.lack) if machine.segmented else ByOperations()
