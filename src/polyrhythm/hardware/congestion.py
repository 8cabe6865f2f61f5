"""Models of TCP congestion control: its effect on a connection, apart from sharing links fairly."""

from __future__ import annotations

import math

import msgspec

from polyrhythm.errors import CompositionError

SHORTEST = 1e-3
"""The least seconds between pauses: with less, a connection would do nothing but pause."""


class Fair(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Connections share links fairly and never pause (the default)."""

    @property
    def every(self) -> float:
        """Infinite seconds between pauses: the connection never pauses."""
        return math.inf

    @property
    def seconds(self) -> float:
        """Zero seconds, since the connection never pauses."""
        return 0.0


class Bbr(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Connections stop to measure their latency without a queue, as under BBR ("ProbeRTT"; Cardwell et al., ACM Queue 2016).

    A connection that sends when `every` seconds have passed since it last measured its least round trip waits until all that is under way
    has been acknowledged, a round trip, and for `seconds` more. One that was idle then measures its round trip when it sends again. (BBR
    still keeps four packets under way, which on short paths carry some bytes.)
    """

    every: float = 10.0
    seconds: float = 0.2

    def __post_init__(self) -> None:
        if not (SHORTEST <= self.every < math.inf and 0 <= self.seconds < math.inf):
            raise CompositionError(
                f"{self} is not possible: give finite numbers, {SHORTEST} or more for every, 0 or more for seconds. "
                "For connections that never pause use Fair."
            )


Congestion = Fair | Bbr
