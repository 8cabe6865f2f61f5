"""Bounds on how far a site may be ahead of the slowest one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from polyrhythm.core.settings import checked
from polyrhythm.errors import CompositionError


class MirrorClock(Protocol):
    """The bound on a site's lead; frozen settings."""

    @property
    def measures(self) -> bool:
        """True if it needs the round trips between sites."""

    def lead(self, round_trip: float, step: float) -> float:
        """The bound in steps, with the longest `round_trip` to another site (infinite: unknown) and a `step` (0: unknown), in seconds."""


@dataclass(frozen=True, slots=True)
class AsAgreed:
    """No bound but that of the consistency."""

    measures: ClassVar = False

    def lead(self, round_trip: float, step: float) -> float:
        return math.inf


@dataclass(frozen=True, slots=True)
@checked
class RoundTrips:
    """As many steps as `trips` round trips to the farthest site take, and at least one (Gaia; Hsieh et al., NSDI 2017).

    What a site has sent is known half a round trip later, and by way of two hubs after three lines and two steps, so that sites of equal
    speed over lines that are free do not wait.
    """

    measures: ClassVar = True

    trips: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.trips < math.inf:
            raise CompositionError(f"RoundTrips({self.trips}) lets no site continue: give a number of round trips above 0, such as 2.")

    def lead(self, round_trip: float, step: float) -> float:
        """⌈trips · round trip / step⌉; no bound before both are measured."""
        return max(1, math.ceil(self.trips * round_trip / step)) if step > 0 and round_trip < math.inf else math.inf
