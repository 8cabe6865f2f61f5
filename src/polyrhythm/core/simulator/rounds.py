"""What the workers of a run in virtual time compare with each other while the crew stays the same: each later one finds a difference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from polyrhythm.core.kernel.agreement import PART, Agreements, Facts, difference
from polyrhythm.core.kernel.alignment import Alignment
from polyrhythm.core.kernel.comparison import Comparison, Comparisons
from polyrhythm.core.kernel.message import Message
from polyrhythm.errors import CompositionError


class Comparing(Protocol):
    """Compares what the workers of one view have."""

    def agree(self, name: str, facts: Facts, remedy: str) -> None:
        """Compare the facts of the worker `name` with those of workers that have called before (`WorkerContext.agree`)."""

    def align(self, name: str, alignment: Alignment) -> Message | None:
        """Compare with the worker that came first, whose state the others follow (`WorkerContext.align`)."""

    def compare(self, name: str, comparison: Comparison) -> None:
        """Compare with the worker that came to the same moment first (`WorkerContext.compare`)."""


@dataclass(slots=True)
class Rounds:
    """The agreements and comparisons of one view; `first` is the worker that came first in a round, of each part, and its alignment."""

    agreements: Agreements = field(default_factory=Agreements)
    first: dict[tuple[int, str | None], tuple[str, Alignment]] = field(default_factory=dict)
    comparisons: Comparisons = field(default_factory=Comparisons)

    def agree(self, name: str, facts: Facts, remedy: str) -> None:
        """Compare the facts of the worker `name` with those of workers that have called before (`WorkerContext.agree`)."""
        number = self.agreements.submit(name, facts, remedy)
        if self.agreements.differs(number, name):
            raise CompositionError(self.agreements.difference(number))

    def align(self, name: str, alignment: Alignment) -> Message | None:
        """Compare with the worker that came first, whose state the others follow (`WorkerContext.align`)."""
        number = self.agreements.submit(name, alignment.facts, alignment.remedy)
        if not self.agreements.differs(number, name):
            self.first.setdefault((number, alignment.facts.get(PART)), (name, alignment))
            return None
        if (number, alignment.facts.get(PART)) not in self.first:  # another call: those of the first worker are no state
            raise CompositionError(self.agreements.difference(number))
        first, other = self.first[number, alignment.facts.get(PART)]
        found = difference({first: other.judge(other.held), name: alignment.judge(other.held)})
        if found is not None:
            raise CompositionError(f"{found}: {alignment.remedy}")
        return other.held

    def compare(self, name: str, comparison: Comparison) -> None:
        """Compare with the worker that came to the same moment first (`WorkerContext.compare`)."""
        if found := self.comparisons.add(name, comparison):
            raise CompositionError(found)
