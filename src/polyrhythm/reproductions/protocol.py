"""What a reproduction is: the claims of a paper, what must be measured for each of them to hold, and how it is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from polyrhythm.errors import CompositionError
from polyrhythm.reproductions.trial import Trial

Figures = Mapping[str, float]
"""What one seed has come to, by the name of the figure."""


class Efficiency(Enum):
    """What a figure is about. The first two are never mixed in one claim."""

    STATISTICAL = "statistical efficiency: real gradients, counted in steps, samples or quality"
    SYSTEM = "system efficiency: virtual time on the network and devices that are named"
    EXACT = "exact: counted, or an identity of numbers"
    REAL = "real time on this machine"


class Scaling(Enum):
    """What stays the same when workers are added."""

    WEAK = "weak"
    """Each worker's batch."""
    STRONG = "strong"
    """The batch of all workers together."""
    NONE = "none"
    """Numbers of workers are not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of a paper, and within which bounds the median of `figure` over the seeds must be for it to be reproduced.

    `paper` is what the paper says, `ours` what `figure` is here, in `unit`. Bounds are set before anything is run. `untestable` says why
    a claim cannot be tested here; it then has no figure.
    """

    paper: str
    ours: str = ""
    figure: str = ""
    unit: str = ""
    least: float = -math.inf
    most: float = math.inf
    efficiency: Efficiency = Efficiency.STATISTICAL
    untestable: str = ""

    def __post_init__(self) -> None:
        if self.untestable:
            return
        if not (self.figure and self.ours and self.unit):
            raise CompositionError(f"The claim {self.paper!r} names no figure, no unit or not what it is: give figure=, ours= and unit=.")
        if math.isinf(self.least) and math.isinf(self.most):
            raise CompositionError(f"Any value of {self.figure!r} would reproduce the claim {self.paper!r}: give least= or most=.")

    @property
    def bounds(self) -> str:
        """The bounds in words."""
        if math.isinf(self.most):
            return f"at least {self.least:g}"
        if math.isinf(self.least):
            return f"at most {self.most:g}"
        return f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """An experiment that tests claims of a paper about `systems`; `name` is how it is called on the command line.

    `measure` makes the runs of one seed and returns the figures of all claims; `tune` is called once before, with the seed for tuning, and
    what it returns is `trial.tuned` in all seeds. `setting` says what is run here and where it differs from the paper; `baseline` is the
    arm with which the others are compared, empty where nothing is compared. `stop` says when training stops, as fixed beforehand, and
    `machines` why arms run on different ones, where they do.
    """

    name: str
    systems: Sequence[str]
    paper: str
    setting: str
    claims: Sequence[Claim]
    measure: Callable[[Trial], Figures]
    tune: Callable[[Trial], Figures] | None = None
    baseline: str = ""
    stop: str = "after a number of samples that was fixed beforehand"
    scaling: Scaling = Scaling.NONE
    machines: str = ""
    notes: str = ""

    @property
    def testable(self) -> list[Claim]:
        """The claims that have a figure."""
        return [claim for claim in self.claims if not claim.untestable]
