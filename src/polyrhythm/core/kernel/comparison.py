"""Values that must be equal at all workers when each comes to the same moment of its run; no worker waits for the comparison.

`WorkerContext.compare` takes a `Comparison`. The simulator, the launcher of processes and each joined worker hand it to their
`Comparisons`.
"""

from __future__ import annotations

import math

import msgspec

from polyrhythm.core.kernel.agreement import difference, place

_SHOWN = 6


class Fact(msgspec.Struct, frozen=True, tag=True):
    """A value that must be the same text."""

    value: str
    remedy: str

    def differs(self, other: Fact) -> bool:
        """True if the other text is different."""
        return self.value != other.value

    def __str__(self) -> str:
        return self.value


class Sketch(msgspec.Struct, frozen=True, tag=True):
    """Some elements of a tensor, which may differ by `tolerance`, relative to their norm, among processors of one `kind`."""

    values: tuple[float, ...]
    tolerance: float
    kind: str
    remedy: str

    def differs(self, other: Sketch) -> bool:
        """True if the other is further away than the tolerance, or has another number of elements; always False for another `kind`."""
        if self.kind != other.kind:
            return False
        if len(self.values) != len(other.values):
            return True
        pairs = [
            (mine, its) for mine, its in zip(self.values, other.values, strict=True) if not (mine == its or mine != mine != its != its)
        ]
        apart = math.hypot(*(mine - its for mine, its in pairs))
        return not apart <= max(self.tolerance, other.tolerance) * math.hypot(*other.values) if pairs else False

    def __str__(self) -> str:
        return f"of norm {math.hypot(*self.values):.{_SHOWN}g}"


class Times(msgspec.Struct, frozen=True, tag=True):
    """The number of times that something was done: `least` for certain, `most` at most, and the `last` time after that step."""

    least: int
    most: int
    last: int
    remedy: str

    def differs(self, other: Times) -> bool:
        """True if both cannot have been done equally often."""
        return self.least > other.most or other.least > self.most

    def __str__(self) -> str:
        return f"{self.least} times, last after step {self.last}" if self.least else "never"


class Comparison(msgspec.Struct, frozen=True):
    """The values of one worker at a `moment`, by name. `shown` is the moment in words, such as "step 8"."""

    moment: str
    shown: str
    found: dict[str, Fact | Sketch | Times]


class Comparisons:
    """Compares every worker with the one that came to the same moment first."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[str, Comparison]] = {}

    def add(self, name: str, comparison: Comparison) -> str:
        """Compare the worker `name` with the first that came to this moment: the sentence on what differs, or an empty text."""
        first, known = self._first.setdefault(comparison.moment, (name, comparison))
        for what, mine in comparison.found.items():
            its = known.found.get(what)
            if its is not None and its.differs(mine):  # type: ignore[arg-type]
                shown = dict(sorted({first: {what: str(its)}, name: {what: str(mine)}}.items(), key=lambda item: place(item[0])))
                return f"At {comparison.shown} {difference(shown) or _alike(shown, what)}: {mine.remedy}"
        return ""


def _alike(shown: dict[str, dict[str, str]], what: str) -> str:
    """The sentence on two values that differ, and yet are the same in words."""
    return f"{' and '.join(shown)} have {what} that differ"
