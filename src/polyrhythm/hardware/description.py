"""The format of network files, and of the presets.

    {"name": "two-labs",
     "sites": [{"name": "lab", "egress": "1 Gbit/s", "latency": "50 us", "uplink": "100 Mbit/s"},
               {"name": "attic", "egress": "20 Mbit/s", "ingress": "100 Mbit/s", "latency": "2 ms"}],
     "links": [{"from": "lab", "to": "attic", "latency": "15 ms", "bandwidth": "80 Mbit/s"}]}

Rates are text ("50 Mbit/s") or bytes per second, durations text ("20 ms") or seconds, one way. What is left out is
unlimited, or zero for a latency; `ingress` is `egress` where left out. `changes` are in `changes.py`; `loss` is the
part of datagrams that do not arrive. `medium` is what all hosts of a site share in both directions, as stations of a
wireless network do; `jitter` is by how much the latency of a message may differ; `meter` is in `meters.py`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from polyrhythm.core.typed_files import read_typed
from polyrhythm.hardware.changes import ChangeEntry
from polyrhythm.hardware.congestion import Congestion, Fair
from polyrhythm.hardware.meters import Meter
from polyrhythm.hardware.placement import Blocks, Deal, Local, OwnHosts, Placement

Quantity = str | float


class SiteEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A site, the access of each of its hosts, and the bandwidth that all of them share: towards other sites, or for all they send."""

    name: str
    egress: Quantity
    ingress: Quantity | None = None
    latency: Quantity = 0.0
    uplink: Quantity | None = None
    downlink: Quantity | None = None
    medium: Quantity | None = None
    jitter: Quantity = 0.0
    meter: Meter | None = None


class LinkEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"source": "from", "target": "to"}):
    """The connection from one site to another; it is also that of the return direction, unless that has a separate entry."""

    source: str
    target: str
    latency: Quantity
    bandwidth: Quantity | None = None
    jitter: Quantity = 0.0


class HostEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A host whose access differs from the others of its site."""

    host: int
    egress: Quantity
    ingress: Quantity | None = None


class NetworkDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole network, as written."""

    name: str
    sites: list[SiteEntry]
    links: list[LinkEntry] = []
    hosts: list[HostEntry] = []
    deal: Deal = Blocks()
    placement: Placement = OwnHosts()
    local: Local = Local()
    congestion: Congestion = Fair()
    changes: list[ChangeEntry] = []
    loss: float = 0.0


def read(path: Path) -> NetworkDescription:
    """The description in the file at `path`; raises `CompositionError` with the place of the mistake."""
    hint = (
        "A network has name and sites (each with name and egress), and may have links, hosts, deal, placement, local, congestion, changes "
        "and loss."
    )
    return read_typed(path, NetworkDescription, "network file", hint, "Give a file or a preset's name.")
