"""Tracks up to which step all updates have come, where messages on different routes overtake each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from polyrhythm.core.protocols.state import admitted
from polyrhythm.core.trees import StateTree


class Span(NamedTuple):
    """Steps of one source: those after `after`, up to and including `until` (infinite after the last)."""

    source: int
    after: float
    until: float


def to_numbers(spans: Iterable[Span]) -> tuple[float, ...]:
    """All fields, in order."""
    return tuple(float(field) for span in spans for field in span)


def from_numbers(numbers: Sequence[float]) -> list[Span]:
    """The spans whose `to_numbers` these are."""
    return [Span(int(source), after, until) for source, after, until in zip(*[iter(numbers)] * 3, strict=True)]


def joined(spans: Sequence[Span]) -> list[Span]:
    """The same steps in as few spans as they make."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and found[-1].source == span.source and found[-1].until == span.after:
            found[-1] = Span(span.source, found[-1].after, span.until)
        else:
            found.append(span)
    return found


class Coverage:
    """`until` is the step of each source up to which all has come; `ahead` are spans that came before those they follow."""

    def __init__(self, sources: Iterable[int]) -> None:
        self.until = dict.fromkeys(sources, 0.0)
        self.ahead: list[Span] = []
        self.unknown: set[int] = set()
        """Sources of whose steps before the next span nothing will come."""

    def begin_anew(self) -> None:
        """The sources have changed, and with them the routes: the next span of each follows on what has come, whatever was lost."""
        self.until = dict.fromkeys(self.until, min((clock for clock in self.until.values() if clock < math.inf), default=0.0))
        self.unknown, self.ahead = set(self.until), []

    def add(self, spans: Iterable[Span]) -> None:
        """Note that all updates of these spans have come."""
        self.ahead = joined([*self.ahead, *spans])
        for span in self.ahead:
            if span.source in self.unknown:
                self.unknown.remove(span.source)
                self.until[span.source] = max(span.after, self.until[span.source])
        for span in self.ahead:
            if span.after <= self.until[span.source] < span.until:
                self.until[span.source] = span.until
        self.ahead = [span for span in self.ahead if span.until > self.until[span.source]]

    @property
    def slowest(self) -> float:
        """The least step up to which all of a source has come; infinite where all have sent their last."""
        return min(self.until.values(), default=math.inf)

    def export(self) -> StateTree:
        """The state for a checkpoint."""
        return {"until": list(self.until.items()), "ahead": [tuple(map(float, span)) for span in self.ahead]}

    def restore(self, state: StateTree, first: float) -> None:
        """Continue with the sources that are still there; others count as at the slowest clock, or at `first` where there is none."""
        self.until = admitted(dict(state["until"]), self.until, first)
        self.ahead = [Span(int(source), after, until) for source, after, until in state["ahead"] if source in self.until]
