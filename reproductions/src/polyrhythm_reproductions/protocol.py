"""The protocol of a reproduction: the claims of a paper, the bounds within which each of them holds, and the function that measures. Every
file of the catalogue defines a `Reproduction`, which `conduct` runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from polyrhythm.errors import CompositionError
from polyrhythm_reproductions.trial import ArmTrial

Figures = Mapping[str, float]
"""What one seed has come to, by the name of the figure."""


_RATIOS = ("ratio", "x")


class Efficiency(Enum):
    """The subject of a figure. The first two are never mixed in one claim."""

    STATISTICAL = "statistical efficiency: real gradients, counted in steps, samples or quality"
    SYSTEM = "system efficiency: virtual time on the network and devices that are named"
    EXACT = "exact: counted, or an identity of numbers"
    REAL = "real time on this machine"


class ClaimKind(Enum):
    """The assertion of a claim, which decides the bounds that it may have."""

    EFFECT = "an effect"
    """One arm differs from the other in the direction that is named: no difference at all is outside the bounds."""
    NO_WORSE = "no worse"
    """One arm is as good as the other up to a margin, so that no difference at all is within the bounds."""
    VALUE = "a value"
    """A count, an identity or the value of a formula: there are no two arms that could change places."""


class Scaling(Enum):
    """The quantity that stays the same when workers are added."""

    WEAK = "weak"
    """Each worker's batch."""
    STRONG = "strong"
    """The batch of all workers together."""
    NONE = "none"
    """Numbers of workers are not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of a paper, and within which bounds the median of `figure` over the seeds must be for it to be reproduced.

    `paper` is what the paper says, `ours` what `figure` is here, in `unit`. Bounds are set before anything is run; where one, or what is
    measured, was changed after a run, `changed` gives the old value and the reason. `beside` names another figure, in the same unit, that
    is shown with this one. `untestable` says why a claim cannot be tested here; it then has no figure.
    """

    paper: str
    ours: str = ""
    figure: str = ""
    unit: str = ""
    least: float = -math.inf
    most: float = math.inf
    efficiency: Efficiency = Efficiency.STATISTICAL
    kind: ClaimKind = ClaimKind.EFFECT
    changed: str = ""
    beside: str = ""
    untestable: str = ""

    def __post_init__(self) -> None:
        if self.untestable:
            return
        if not (self.figure and self.ours and self.unit):
            raise CompositionError(f"The claim {self.paper!r} names no figure, no unit or not what it is: give figure=, ours= and unit=.")
        if math.isinf(self.least) and math.isinf(self.most):
            raise CompositionError(f"Any value of {self.figure!r} would reproduce the claim {self.paper!r}: give least= or most=.")
        null = without_effect(self.unit)
        admitted = self.least <= null <= self.most
        if self.kind is ClaimKind.EFFECT and admitted:
            raise CompositionError(
                f"The claim {self.paper!r} would be reproduced by no effect at all, a {self.figure!r} of {null:g}: give bounds without "
                "it, or say kind=ClaimKind.NO_WORSE, or kind=ClaimKind.VALUE where no two arms are compared."
            )
        if self.kind is ClaimKind.NO_WORSE and not admitted:
            raise CompositionError(f"The claim {self.paper!r} is to be one of no difference, and its bounds leave out {null:g}.")

    @property
    def bounds(self) -> str:
        """The bounds in words."""
        if math.isinf(self.most):
            return f"at least {self.least:g}"
        if math.isinf(self.least):
            return f"at most {self.most:g}"
        return f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"


def without_effect(unit: str) -> float:
    """The value of a figure in `unit` for two arms that are equal: 1 of ratios, 0 of differences."""
    return 1.0 if unit in _RATIOS else 0.0


def swapped(value: float, unit: str) -> float:
    """The value of the figure if its two arms changed places."""
    if unit not in _RATIOS:
        return -value
    return 1 / value if value else math.inf


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
    measure: Callable[[ArmTrial], Figures]
    tune: Callable[[ArmTrial], Figures] | None = None
    baseline: str = ""
    stop: str = "after a number of samples that was fixed beforehand"
    scaling: Scaling = Scaling.NONE
    machines: str = ""
    notes: str = ""

    @property
    def testable(self) -> list[Claim]:
        """The claims that have a figure."""
        return [claim for claim in self.claims if not claim.untestable]
