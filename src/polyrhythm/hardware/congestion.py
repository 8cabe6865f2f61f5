"""What TCP's congestion control does to a connection, beside sharing lines fairly."""

from __future__ import annotations

import math

import msgspec

from polyrhythm.errors import CompositionError

SHORTEST = 1e-3
"""Seconds between pauses, at least: a connection that does nothing else ends nothing."""


class Fair(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Nothing else (the default)."""

    @property
    def every(self) -> float:
        """It never pauses."""
        return math.inf

    @property
    def seconds(self) -> float:
        """It never pauses."""
        return 0.0


class Bbr(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Connections stop to measure their latency without a queue, as under BBR ("ProbeRTT"; Cardwell et al., ACM Queue 2016).

    One that sends when `every` seconds have passed since it last saw its least round trip waits until all that is on its way has
    been acknowledged, a round trip, and for `seconds` more. One that was silent then sees its round trip when it begins again. (BBR
    still keeps four packets on the way, which on short paths carry something.)
    """

    every: float = 10.0
    seconds: float = 0.2

    def __post_init__(self) -> None:
        if not (SHORTEST <= self.every < math.inf and 0 <= self.seconds < math.inf):
            raise CompositionError(
                f"{self} cannot be: it pauses every {SHORTEST} seconds or less often, for 0 seconds or more, both finite. "
                "For connections that never pause give Fair."
            )


Congestion = Fair | Bbr
