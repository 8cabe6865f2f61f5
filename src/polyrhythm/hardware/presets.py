"""The networks that have a name. Each is for any number of hosts.

lan     One switch: 10 Gbit/s for each host and 50 µs one way. Typical of TCP on 10-gigabit Ethernet; estimate.
cloud   Virtual machines of 10 Gbit/s in four racks or placement groups whose uplinks to the spine carry 40 Gbit/s, hence
        up to 4:1 oversubscription with 64 machines; 0.25 ms one way. Typical of one region of a public cloud; estimate.
home    Volunteers on asymmetric lines: 100 Mbit/s down, 20 Mbit/s up, 15 ms one way between any two. Typical of cable
        lines; estimate.
slow    50 Mbit/s and 20 ms one way between any two: offices joined over the internet. Defined by this project, so that
        a prediction can be held against three hosts whose links are shaped to just that.
wan-3   Virginia, Ireland and Tokyo of `wan-11`.
wan-11  The eleven EC2 regions of Gaia (Hsieh et al., NSDI 2017): docs/networks.md names what is published, what is approximate,
        and what is reconstructed.
"""

from __future__ import annotations

from polyrhythm.hardware.description import LinkEntry, NetworkDescription, SiteEntry
from polyrhythm.hardware.wan import REGIONS, regions


def _racks() -> NetworkDescription:
    names = [f"rack-{number}" for number in range(4)]
    sites = [SiteEntry(name, "10 Gbit/s", latency="0.25 ms", uplink="40 Gbit/s", downlink="40 Gbit/s") for name in names]
    return NetworkDescription("cloud", sites, [LinkEntry(a, b, "0.25 ms") for a in names for b in names if a < b])


PRESETS: dict[str, NetworkDescription] = {
    description.name: description
    for description in (
        NetworkDescription("lan", [SiteEntry("lan", "10 Gbit/s", latency="50 us")]),
        _racks(),
        NetworkDescription("home", [SiteEntry("home", "20 Mbit/s", "100 Mbit/s", "15 ms")]),
        NetworkDescription("slow", [SiteEntry("slow", "50 Mbit/s", latency="20 ms")]),
        regions("wan-3", ("Virginia", "Ireland", "Tokyo")),
        regions("wan-11", REGIONS),
    )
}
