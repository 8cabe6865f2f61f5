"""What must be equal at all workers at the same moment of each one's own run, compared while nobody waits."""

from __future__ import annotations

import math

import msgspec

from polyrhythm.kernel.agreement import difference

_SHOWN = 6


class Sketch(msgspec.Struct, frozen=True):
    """Some elements of a tensor, which may differ by `tolerance`, relative to their norm, among processors of one `kind`."""

    values: tuple[float, ...]
    tolerance: float
    kind: str

    def differs(self, other: Sketch) -> bool:
        """Whether the other is further away than that."""
        if self.kind != other.kind or self.values == other.values:
            return False
        if len(self.values) != len(other.values):
            return True
        apart = math.dist(self.values, other.values)
        return not apart <= max(self.tolerance, other.tolerance) * math.hypot(*other.values)

    def __str__(self) -> str:
        return f"of norm {math.hypot(*self.values):.{_SHOWN}g}"


class Comparison(msgspec.Struct, frozen=True):
    """What one worker has at a `moment`, such as "step 8": facts that must be equal, tensors that must nearly be, and the `remedy`."""

    moment: str
    facts: dict[str, str]
    sketches: dict[str, Sketch]
    remedy: str


class Comparisons:
    """Compares every worker with the one that came to the same moment first."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, Comparison]] = {}

    def add(self, name: str, comparison: Comparison) -> str:
        """The worker `name` has come to a moment: the sentence on what differs there, or nothing."""
        first, known = self._first.setdefault(comparison.moment, (name, comparison))
        found = difference({first: known.facts, name: comparison.facts})
        if found is None:
            found = _apart({first: known, name: comparison})
        return f"At {comparison.moment} {found}: {comparison.remedy}" if found else ""


def _apart(pair: dict[str, Comparison]) -> str:
    if len(pair) < 2:
        return ""
    (first, known), (name, comparison) = sorted(pair.items(), key=lambda item: _place(item[0]))
    for what, sketch in comparison.sketches.items():
        other = known.sketches.get(what)
        if other is not None and sketch.differs(other):
            return f"{first} has {what} {other}, {name} has {what} {sketch}"
    return ""


def _place(name: str) -> tuple[str, int]:
    kind, _, number = name.rpartition("/")
    return kind, int(number)
