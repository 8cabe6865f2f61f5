"""Segments of a program, each from one place where it waits to the next: measured once, and charged in virtual time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import msgspec

SPEED = 24e9
"""The operations per second of what was not measured, where a file does not say: those of a CPU core."""


class Segment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"begin": "from", "end": "to"}):
    """The median of the CPU `seconds` that a program computes from the place `begin` to `end`, and how many `times` it was measured."""

    begin: str
    end: str
    seconds: float
    times: int = 1


@dataclass(frozen=True)
class Segments:
    """A machine for programs of torch.distributed in virtual time: measured segments. Others cost operations."""

    name: str
    segments: tuple[Segment, ...]
    flops: float = SPEED

    @cached_property
    def _seconds(self) -> dict[tuple[str, str], float]:
        return {(each.begin, each.end): each.seconds for each in self.segments}

    @property
    def measured(self) -> bool:
        """No: operations are counted, for what is no measured segment."""
        return False

    @property
    def segmented(self) -> bool:
        """True."""
        return True

    def segment(self, begin: str, end: str) -> float | None:
        """The seconds from the place `begin` to `end`; None where that was not measured."""
        return self._seconds.get((begin, end))

    def step_seconds(self, flops: float, step: int) -> float:
        """The operations over the speed: segments have what else a step costs."""
        return flops / self.flops

    def seconds(self, flops: float) -> float:
        """The operations over the speed."""
        return flops / self.flops

    def merge_seconds(self, contributions: int) -> float:
        """Zero: nothing is merged."""
        return 0.0


class SegmentTimes:
    """The times of segments, as they are measured."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = defaultdict(list)

    def note(self, begin: str, end: str, seconds: float) -> None:
        """The program has computed for `seconds` from `begin` to `end`."""
        self._seconds[begin, end].append(seconds)

    def write(self, path: Path) -> None:
        """Write the medians, as a file of a device."""
        found = tuple(Segment(*key, median(every), len(every)) for key, every in self._seconds.items())
        written = {"name": path.stem, "flops": SPEED, "segments": found}
        path.write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=1) + b"\n")
