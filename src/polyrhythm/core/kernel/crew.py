"""The workers that a run may have: one number of them, or from the least to the most.

Users give one to `run`, the command line reads one, and a `Job` has it for its runtime.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from polyrhythm.core.settings import checked, shown, whole_number
from polyrhythm.errors import CompositionError

_MOST = 100_000
"""A virtual worker takes some milliseconds to begin, and more memory than its model."""


class BatchRule(Enum):
    """What stays equal when the number of workers changes."""

    WORKER = "worker"
    """Each worker's batch: the total batch changes, and the learning rate follows it."""
    GLOBAL = "global"
    """The batch of all workers together: each worker's share of it changes."""

    def batch(self, size: int, before: int, after: int) -> int:
        """A worker's batch after a change, 1 sample or more, where it was `size` among `before` workers."""
        return size if self is BatchRule.WORKER else max(1, round(size * before / after))


@dataclass(frozen=True, slots=True)
@checked
class Crew:
    """From `least` to `most` workers, which may leave, be lost and join while the run goes on.

    A lost worker is replaced, if `replace`, where the runtime can start another. With fewer than `least` the run goes on for `wait`
    seconds, in which others may join, and then ends. `batch` is what stays equal when the number changes: the batch of each "worker", whose
    learning rate then follows, or the "global" one of all workers together. The run begins with `start` workers, by default with `most`.

    Raises CompositionError for numbers that cannot be.

    Examples:
        >>> Crew.of((2, 8))
        Crew(least=2, most=8, replace=True, wait=30.0, batch='worker', start=None)
    """

    least: int
    most: int
    replace: bool = True
    wait: float = 30.0
    batch: Literal["worker", "global"] = "worker"
    start: int | None = None

    def __post_init__(self) -> None:
        if self.least < 1:
            raise CompositionError(f"workers={self} trains nothing: give 1 or more.")
        if self.most < self.least:
            raise CompositionError(
                f"workers={self} has its least above its most: give the smaller number first: {self.most}..{self.least}."
            )
        if self.most > _MOST:
            raise CompositionError(f"workers={self} is more than a machine can hold, also in virtual time: give at most {_MOST:,}.")
        if not 0 <= self.wait < math.inf:
            raise CompositionError(f"Crew(wait={self.wait}) is no time to wait for others to join: give 0 or more seconds.")
        if self.start is not None and not self.least <= self.start <= self.most:
            raise CompositionError(f"Crew(start={self.start}) is not from {self.least} to {self.most}: begin with one of these numbers.")
        if self.batch not in [rule.value for rule in BatchRule]:
            raise CompositionError(f"Crew(batch={shown(self.batch)}) is not known: give 'worker' or 'global'.")

    @staticmethod
    def of(given: Any) -> Crew:
        """The crew that `workers=` means: a number, two of them as (2, 8), or a Crew. Raises CompositionError for anything else."""
        if isinstance(given, Crew):
            return given
        bounds = given if isinstance(given, (tuple, list)) else (given, given)
        if len(bounds) != 2:
            raise CompositionError(f"workers={shown(given)} is no range of two numbers: give such as (2, 8).")
        least, most = (whole_number("workers", bound, "1 or more") for bound in bounds)
        return Crew(least, most)

    @staticmethod
    def parse(text: str) -> Crew:
        """The crew that `--workers` means: 4, or 2..8. Raises CompositionError for other text."""
        if not (found := re.fullmatch(r"([+-]?\d+)(?:\.\.([+-]?\d+))?", text.strip())):
            raise CompositionError(f"--workers {text} is no number of workers: write one, such as 4, or two for a crew that changes: 2..8.")
        least, most = found.groups()
        return Crew.of((int(least), int(most or least)))

    @property
    def first(self) -> int:
        """The number of workers with which the run begins."""
        return self.most if self.start is None else self.start

    @property
    def fixed(self) -> bool:
        """True if the number of workers is one: a crew that does not change."""
        return self.least == self.most

    @property
    def replaces(self) -> bool:
        """True if a lost worker is replaced."""
        return self.replace and not self.fixed

    @property
    def rule(self) -> BatchRule:
        """The meaning of `batch`."""
        return BatchRule(self.batch)

    @property
    def sizes(self) -> Iterator[int]:
        """All numbers of workers that it may have, the least first."""
        return iter(range(self.least, self.most + 1))

    def within(self, least: int, most: int) -> Crew:
        """The same, with these bounds."""
        start = None if self.start is None else min(max(self.start, least), most)
        return self if (least, most) == (self.least, self.most) else replace(self, least=least, most=most, start=start)

    def number(self, what: str) -> int:
        """The one number of workers. Raises CompositionError where they may change, which `what` cannot use: "A comparison"."""
        if not self.fixed:
            raise CompositionError(f"{what} needs one number of workers, and {self} is a crew that changes: give one, such as {self.most}.")
        return self.most

    def __str__(self) -> str:
        return str(self.most) if self.fixed else f"{self.least}..{self.most}"


FIXED = Crew(1, 1)
"""The default of a `Job`, which takes it for a crew of as many workers as it has."""
