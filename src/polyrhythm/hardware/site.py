"""Bandwidth limits of hosts: those of a site, and those of one host that differs from its site."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polyrhythm.core.settings import checked
from polyrhythm.hardware.meters import Meter


@dataclass(frozen=True, slots=True)
@checked
class Site:
    """A group of hosts. Bytes per second: `egress` and `ingress` of each host, `uplink` and `downlink` shared by all of them.

    `latency` is in seconds, one way, between two hosts of the site, and that of a message differs by up to `jitter` seconds. Uplink and
    downlink carry only traffic that leaves or enters the site. All that its hosts send or receive shares the `medium`, in both directions
    (half duplex): a message inside the site takes it twice, to the access point and from it. A `meter` counts what its lines carry.
    """

    name: str
    egress: float
    ingress: float
    latency: float = 0.0
    uplink: float = math.inf
    downlink: float = math.inf
    medium: float = math.inf
    jitter: float = 0.0
    meter: Meter | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """The bytes per second that one host may send and receive."""

    egress: float
    ingress: float
