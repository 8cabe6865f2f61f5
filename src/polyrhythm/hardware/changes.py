"""Bandwidths that change while a run is under way, as a network file lists them.

    "changes": [{"at": "30 s", "host": 1, "egress": "5 Mbit/s", "ingress": "5 Mbit/s"},
                {"at": "60 s", "from": "lab", "to": "attic", "bandwidth": "8 Mbit/s"},
                {"at": "90 s", "site": "lab", "uplink": "100 Mbit/s"}]

Times count from the beginning of a run; in the lab from when its hosts are connected, so that a program's start counts too. With
`"every": "24 h"` a change comes again every day, so that two of them are day and night: `times` times, 30 by default.
"""

from __future__ import annotations

import math

import msgspec

from polyrhythm.core import units

Quantity = str | float


class ChangeEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"source": "from", "target": "to"}):
    """A change of bandwidth as written: of one host, of what one site shares, or of the connection from one site to another (and back)."""

    at: Quantity
    host: int | None = None
    site: str | None = None
    source: str | None = None
    target: str | None = None
    egress: Quantity | None = None
    ingress: Quantity | None = None
    uplink: Quantity | None = None
    downlink: Quantity | None = None
    bandwidth: Quantity | None = None
    medium: Quantity | None = None
    every: Quantity | None = None
    times: int = 30

    @property
    def moments(self) -> list[float]:
        """The seconds at which it comes."""
        at = units.duration(self.at)
        return [at] if self.every is None else [at + place * units.duration(self.every) for place in range(self.times)]

    def __post_init__(self) -> None:
        allowed = {
            "host": (self.host is not None, ("egress", "ingress")),
            "site": (self.site is not None, ("uplink", "downlink", "medium")),
            "from and to": (self.source is not None and self.target is not None, ("bandwidth",)),
        }
        named = [name for name, (given, _) in allowed.items() if given]
        if len(named) != 1 or (self.source is None) != (self.target is None):
            raise ValueError("a change is of one host, of one site, or from one site to another: give one of host, site, or from and to")
        if self.every is not None and not (0 < units.duration(self.every) < math.inf and self.times > 0):
            raise ValueError(f"a change every {self.every}, {self.times} times, cannot be: give more than 0 of both")
        rates = [name for name in ("egress", "ingress", "uplink", "downlink", "medium", "bandwidth") if getattr(self, name) is not None]
        wanted = allowed[named[0]][1]
        if not rates or not set(rates) <= set(wanted):
            raise ValueError(f"a change of {named[0]} gives {' or '.join(wanted)}, and this one {' and '.join(rates) or 'no bandwidth'}")
